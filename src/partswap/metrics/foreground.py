"""Foreground: do the swapped cells lie on the object?"""

from __future__ import annotations

from partswap.counterfactual import Counterfactual
from partswap.metrics.base import METRICS, Evidence, Metric


@METRICS.register("foreground")
class Foreground(Metric):
    """Mean of [cell overlaps the object's mask] over the two cells of an edit."""

    title = "Foreground"

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return 0, 0.5 or 1 per edit."""
        out = []
        for edit in cf.edits:
            query, i, distractor, j = evidence.cells(edit, cf.grid)
            if query.object is None or distractor.object is None:
                return None
            out.append((query.object[i] + distractor.object[j]) / 2)
        return out
