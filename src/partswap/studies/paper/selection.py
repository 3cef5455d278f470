"""Supplement: the class to explain towards, from the confusion matrix or from attributes."""

from __future__ import annotations

from partswap.studies.paper.lab import METHODS, PAPER, Lab, Result, cell
from partswap.studies.tables import Cell, ResultTable

PUBLISHED = {
    ("goyal", "confusion"): "54.6 / 8.3 / 5.5",
    ("goyal", "attributes"): "55.0 / 8.6 / 5.4",
    ("paper", "confusion"): "68.5 / 35.3 / 3.9",
    ("paper", "attributes"): "68.6 / 35.6 / 3.9",
}


@PAPER.register("selection")
def selection(lab: Lab) -> Result:
    """Return the comparison of both ways; without class attributes only the confusion matrix."""
    ways = ["confusion"] if lab.bench.data.attributes() is None else ["confusion", "attributes"]
    rows: list[list[Cell]] = []
    for method, title, settings in METHODS:
        for way in ways:
            scores = lab.scores(method, settings, selection=way)
            numbers = [cell(scores, name) for name in ("near_kp", "same_kp", "edits")]
            rows.append([title, way, *numbers, PUBLISHED.get((method, way)) if lab.comparable else None])
    columns = ["method", "selection", "Near-KP", "Same-KP", "#Edits", "paper"]
    note = lab.note() + ("" if len(ways) > 1 else " This data set has no class attributes.")
    return Result(ResultTable("Selection of query and distractor classes", columns, rows, note, digits=2))
