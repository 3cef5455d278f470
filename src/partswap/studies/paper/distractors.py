"""Supplement, figure: time and quality against the number of distractors."""

from __future__ import annotations

from matplotlib.figure import Figure

from partswap.studies.paper.lab import PAPER, Lab, Result, cell
from partswap.studies.tables import Cell, ResultTable

COUNTS = (1, 2, 5, 10, 20)
METHODS: tuple[tuple[str, str, dict[str, float], str], ...] = (
    ("paper", "Vandenhende et al., k = 10 %", {"keep": 0.1}, "#ee6677"),
    ("partswap", "partswap (ours)", {}, "#4477aa"),
)


@PAPER.register("distractors")
def distractors(lab: Lab) -> Result:
    """Return time and metrics for one to twenty distractors."""
    counts = [n for n in COUNTS if n <= lab.config.distractors]
    rows: list[list[Cell]] = []
    figure = Figure(figsize=(9.6, 3.3), layout="constrained")
    axes = figure.subplots(1, 3)
    for method, title, settings, colour in METHODS:
        found = [lab.scores(method, settings, distractors=n) for n in counts]
        for n, scores in zip(counts, found, strict=True):
            numbers = [cell(scores, m) for m in ("near_kp", "same_kp", "edits", "seconds", "evaluations")]
            rows.append([title, n, *numbers])
        for axis, metric, factor, label in zip(
            axes,
            ("seconds", "same_kp", "edits"),
            (1, 100, 1),
            ("seconds per explanation", "Same-KP, %", "edits"),
            strict=True,
        ):
            axis.plot(counts, [factor * (s[metric].all or 0) for s in found], "o-", color=colour, label=title)
            axis.set_xlabel("distractors")
            axis.set_ylabel(label)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_ylim(bottom=0)
    axes[-1].legend(frameon=False, fontsize=8)
    columns = ["method", "n", "Near-KP", "Same-KP", "#Edits", "seconds", "evaluations"]
    table = ResultTable("Number of distractors, all edits", columns, rows, lab.note(distractors=False), digits=2)
    return Result(table, {"distractors": figure})
