"""True-part: do the swapped cells show a part in which the two classes truly differ?"""

from partswap.metrics.base import METRICS, EditMetric, Swap


@METRICS.register("true_part")
class TruePart(EditMetric):
    """How often both cells of an edit show one and the same part, and the two classes truly differ in it.

    Needs part masks and knowledge of the true differences, which only a drawn world has.
    """

    title = "True-part"

    def score(self, swap: Swap) -> float | None:
        """Return 0 or 1."""
        if swap.shows is None or swap.differing is None:
            return None
        return float(bool(frozenset.intersection(*swap.shows, swap.differing)))
