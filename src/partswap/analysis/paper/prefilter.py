"""Supplement: the paper's prefilter, from one candidate in a hundred to all of them."""

from __future__ import annotations

from partswap.analysis.paper.context import TABLES, Result, Row, TableContext

#: The share kept, and the paper's Near-KP / Same-KP / #Edits / seconds.
ROWS = (
    (0.01, "61.2 / 34.1 / 4.8 / 0.18"),
    (0.05, "66.8 / 34.9 / 4.2 / 0.64"),
    (0.10, "68.5 / 35.3 / 3.9 / 1.15"),
    (0.15, "68.9 / 35.5 / 3.9 / 1.71"),
    (0.20, "69.1 / 35.9 / 3.8 / 2.20"),
    (None, "69.2 / 36.0 / 3.8 / 10.82"),
)


@TABLES.register("prefilter")
def prefilter(lab: TableContext) -> Result:
    """Return the ablation of the prefilter."""
    rows = []
    for keep, numbers in ROWS:
        title, settings = ("100 % (none)", {}) if keep is None else (f"{keep:.0%}", {"keep": keep})
        rows.append(Row([title], lab.scores("paper", settings), lab.published(numbers)))
    metrics = ["near_kp", "same_kp", "edits", "seconds"]
    note = lab.note() + " Candidates are screened in every row, so the prefilter saves little time here."
    title = "Prefilter, the paper's method, all edits"
    return lab.result(title, ["kept"], metrics, rows, paper="paper (V-100)", note=note)
