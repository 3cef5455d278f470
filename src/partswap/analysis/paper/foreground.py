"""Supplement: how often swapped cells lie on the object."""

from __future__ import annotations

from partswap.analysis.paper.context import COMPARED, TABLES, Result, Row, TableContext

PUBLISHED = {"goyal": "94.2 / 54.6 / 8.3 / 5.5", "paper": "99.1 / 68.5 / 35.3 / 3.9"}


@TABLES.register("foreground")
def foreground(lab: TableContext) -> Result:
    """Return the foreground metric beside the others."""
    rows = [
        Row([title], lab.scores(method, settings), lab.published(PUBLISHED.get(method)))
        for method, title, settings in COMPARED
    ]
    return lab.result("Foreground, all edits", ["method"], ["foreground", "near_kp", "same_kp", "edits"], rows)
