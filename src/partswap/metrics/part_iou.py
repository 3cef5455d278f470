"""Part-IoU: do both sides of an explanation show the same parts?"""

from partswap.metrics._parts import swapped_parts
from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("part_iou")
class PartIoU(Metric):
    """Parts in the swapped cells of both sides, as a share of the parts in those of either (SCOUT's PIoU).

    Unlike Same-KP it compares the two regions as wholes. Regions without any part score 0.
    """

    title = "Part-IoU"

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return the intersection over the union of parts."""
        swapped = swapped_parts(cf, evidence)
        if swapped is None:
            return None
        mine, theirs = swapped
        return [len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0]
