"""Same-KP: is a head swapped for a head?"""

from __future__ import annotations

from partswap.counterfactual import Counterfactual
from partswap.metrics.base import METRICS, Evidence, Metric


@METRICS.register("same_kp")
class SameKP(Metric):
    """How often the two cells of an edit hold keypoints of the same part."""

    title = "Same-KP"

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return 0 or 1 per edit."""
        out = []
        for edit in cf.edits:
            query, i, distractor, j = evidence.cells(edit, cf.grid)
            if query.keypoints is None or distractor.keypoints is None:
                return None
            out.append(float(bool(query.keypoints[i] & distractor.keypoints[j])))
        return out
