"""True-part: is what was swapped a part in which the two classes truly differ?"""

from __future__ import annotations

from partswap.counterfactual import Counterfactual
from partswap.metrics.base import METRICS, Evidence, Metric


@METRICS.register("true_part")
class TruePart(Metric):
    """How often both cells of an edit show one and the same part, and the two classes truly differ in it.

    Needs part masks and knowledge of the true differences, which only a drawn world has.
    """

    title = "True-part"

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return 0 or 1 per edit."""
        if evidence.differing is None:
            return None
        out = []
        for edit in cf.edits:
            query, i, distractor, j = evidence.cells(edit, cf.grid)
            if query.shows is None or distractor.shows is None:
                return None
            out.append(float(bool(query.shows[i] & distractor.shows[j] & evidence.differing)))
        return out
