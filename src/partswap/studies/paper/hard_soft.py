"""Supplement: the semantic term as a soft weight, or as a hard constraint within clusters (and within true parts)."""

from __future__ import annotations

from collections.abc import Mapping

from partswap.metrics import Score
from partswap.studies.paper.lab import PAPER, Lab, Result, cell
from partswap.studies.tables import Cell, ResultTable

CLUSTERS = 50
PUBLISHED = {"hard": "40.1 / 13.3 / 9.3", "soft": "52.1 / 22.0 / 6.8"}


@PAPER.register("hard-soft")
def hard_soft(lab: Lab) -> Result:
    """Return the comparison with one distractor."""
    found: dict[str, tuple[str, Mapping[str, Score]]] = {
        f"hard, {CLUSTERS} clusters": ("hard", lab.scores("hard", {"clusters": CLUSTERS}, distractors=1)),
        "soft, Vandenhende et al.": ("soft", lab.scores("paper", distractors=1)),
        "soft, partswap": ("ours", lab.scores("partswap", distractors=1)),
    }
    if lab.bench.data.parts:
        found["hard, annotated parts (upper bound)"] = ("parts", lab.scores("hard", {"by": "parts"}, distractors=1))
    rows: list[list[Cell]] = []
    for title, (name, scores) in found.items():
        numbers = [cell(scores, metric) for metric in ("near_kp", "same_kp", "edits", "flip_rate")]
        rows.append([title, *numbers, PUBLISHED.get(name) if lab.comparable else None])
    columns = ["constraint", "Near-KP", "Same-KP", "#Edits", "flipped", "paper"]
    note = f"{lab.note(distractors=False)} One distractor."
    return Result(ResultTable("Hard and soft constraint, all edits", columns, rows, note, digits=2))
