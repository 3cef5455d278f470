"""Same-KP: is a head swapped for a head?"""

from partswap.metrics.base import METRICS, EditMetric, Swap


@METRICS.register("same_kp")
class SameKP(EditMetric):
    """How often the two cells of an edit hold keypoints of the same part."""

    title = "Same-KP"

    def score(self, swap: Swap) -> float | None:
        """Return 0 or 1."""
        return None if swap.keypoints is None else float(not frozenset.isdisjoint(*swap.keypoints))
