"""Near-KP: do the swapped cells hold keypoints at all?"""

from partswap.metrics.base import METRICS, EditMetric, Swap


@METRICS.register("near_kp")
class NearKP(EditMetric):
    """Mean of [query cell holds a keypoint] and [distractor cell holds one], per edit."""

    title = "Near-KP"

    def score(self, swap: Swap) -> float | None:
        """Return 0, 0.5 or 1."""
        return None if swap.keypoints is None else sum(map(bool, swap.keypoints)) / 2
