"""Part recall: are the parts in which the two classes truly differ among the swapped ones?"""

from partswap.metrics._parts import found_and_true
from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("part_recall")
class PartRecall(Metric):
    """Share of the parts that truly differ, and can be seen in the query, that the swapped query cells hold.

    Left out where no part that differs can be seen in the query.
    """

    title = "Part recall"

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return the recall."""
        known = found_and_true(cf, evidence)
        if known is None:
            return None
        found, true = known
        return [len(found & true) / len(true)]
