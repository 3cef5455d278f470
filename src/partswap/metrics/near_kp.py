"""Near-KP: do the swapped cells hold keypoints at all?"""

from __future__ import annotations

from partswap.counterfactual import Counterfactual
from partswap.metrics.base import METRICS, Evidence, Metric


@METRICS.register("near_kp")
class NearKP(Metric):
    """Mean of [query cell holds a keypoint] and [distractor cell holds one], per edit."""

    title = "Near-KP"

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return 0, 0.5 or 1 per edit."""
        out = []
        for edit in cf.edits:
            query, i, distractor, j = evidence.cells(edit, cf.grid)
            if query.keypoints is None or distractor.keypoints is None:
                return None
            out.append((bool(query.keypoints[i]) + bool(distractor.keypoints[j])) / 2)
        return out
