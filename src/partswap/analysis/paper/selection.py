"""Supplement: the class to explain towards, from the confusion matrix or from attributes."""

from __future__ import annotations

from partswap.analysis.paper.context import COMPARED, TABLES, Result, Row, TableContext

PUBLISHED = {
    ("goyal", "confusion"): "54.6 / 8.3 / 5.5",
    ("goyal", "attributes"): "55.0 / 8.6 / 5.4",
    ("paper", "confusion"): "68.5 / 35.3 / 3.9",
    ("paper", "attributes"): "68.6 / 35.6 / 3.9",
}


@TABLES.register("selection")
def selection(lab: TableContext) -> Result:
    """Return the comparison of both ways; without class attributes only the confusion matrix."""
    ways = ["confusion"] if lab.bench.data.attributes() is None else ["confusion", "attributes"]
    rows = [
        Row([title, way], lab.scores(method, settings, selection=way), lab.published(PUBLISHED.get((method, way))))
        for method, title, settings in COMPARED
        for way in ways
    ]
    note = lab.note() + ("" if len(ways) > 1 else " This data set has no class attributes.")
    title = "Selection of query and distractor classes"
    return lab.result(title, ["method", "selection"], ["near_kp", "same_kp", "edits"], rows, note=note)
