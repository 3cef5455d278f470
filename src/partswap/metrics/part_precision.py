"""Part precision: are the swapped parts ones in which the two classes truly differ?"""

from partswap.metrics._parts import found_and_true
from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("part_precision")
class PartPrecision(Metric):
    """Share of the parts in the swapped query cells in which the two classes truly differ; without any part, 0.

    Left out where no part that differs can be seen in the query.
    """

    title = "Part precision"

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return the precision."""
        known = found_and_true(cf, evidence)
        if known is None:
            return None
        found, true = known
        return [len(found & true) / len(found) if found else 0.0]
