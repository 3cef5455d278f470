"""Foreground: do the swapped cells lie on the object?"""

from partswap.metrics.base import METRICS, EditMetric, Swap


@METRICS.register("foreground")
class Foreground(EditMetric):
    """Mean of [cell overlaps the object's mask] over the two cells of an edit."""

    title = "Foreground"

    def score(self, swap: Swap) -> float | None:
        """Return 0, 0.5 or 1."""
        return None if swap.object is None else sum(swap.object) / 2
