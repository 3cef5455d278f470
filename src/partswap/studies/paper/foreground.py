"""Supplement: how often swapped cells lie on the object."""

from __future__ import annotations

from partswap.studies.paper.lab import METHODS, PAPER, Lab, Result, cell
from partswap.studies.tables import Cell, ResultTable

PUBLISHED = {"goyal": "94.2 / 54.6 / 8.3 / 5.5", "paper": "99.1 / 68.5 / 35.3 / 3.9"}


@PAPER.register("foreground")
def foreground(lab: Lab) -> Result:
    """Return the foreground metric beside the others."""
    rows: list[list[Cell]] = []
    for method, title, settings in METHODS:
        scores = lab.scores(method, settings)
        numbers = [cell(scores, name) for name in ("foreground", "near_kp", "same_kp", "edits")]
        rows.append([title, *numbers, PUBLISHED.get(method) if lab.comparable else None])
    columns = ["method", "Foreground", "Near-KP", "Same-KP", "#Edits", "paper"]
    return Result(ResultTable("Foreground, all edits", columns, rows, lab.note(), digits=2))
