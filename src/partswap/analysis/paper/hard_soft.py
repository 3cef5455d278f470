"""Supplement: the semantic term as a soft weight, or as a hard constraint within clusters (and within true parts)."""

from __future__ import annotations

from typing import Any

from partswap.analysis.paper.context import TABLES, Result, Row, TableContext

#: The constraint, the method, its settings, and the paper's Near-KP / Same-KP / #Edits.
ROWS: tuple[tuple[str, str, dict[str, Any], str | None], ...] = (
    ("hard, 50 clusters", "hard", {"clusters": 50}, "40.1 / 13.3 / 9.3"),
    ("soft, Vandenhende et al.", "paper", {}, "52.1 / 22.0 / 6.8"),
    ("soft, partswap", "partswap", {}, None),
)
#: For data with keypoints.
BOUND = ("hard, annotated parts (upper bound)", "hard", {"by": "parts"}, None)


@TABLES.register("hard-soft")
def hard_soft(lab: TableContext) -> Result:
    """Return the comparison with one distractor."""
    rows = [
        Row([title], lab.scores(method, settings, distractors=1), lab.published(numbers))
        for title, method, settings, numbers in (*ROWS, *([BOUND] if lab.bench.data.parts else []))
    ]
    metrics = ["near_kp", "same_kp", "edits", "flip_rate"]
    note = f"{lab.note(distractors=False)} One distractor."
    return lab.result("Hard and soft constraint, all edits", ["constraint"], metrics, rows, note=note)
