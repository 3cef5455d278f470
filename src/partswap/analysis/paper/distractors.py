"""Supplement, figure: time and quality against the number of distractors."""

from __future__ import annotations

from matplotlib.figure import Figure

from partswap.analysis.paper.context import TABLES, Result, Row, TableContext

COUNTS = (1, 2, 5, 10, 20)
#: Name, title, settings, colour.
METHODS: tuple[tuple[str, str, dict[str, float], str], ...] = (
    ("paper", "Vandenhende et al., k = 10 %", {"keep": 0.1}, "#ee6677"),
    ("partswap", "partswap (ours)", {}, "#4477aa"),
)
#: What is drawn: metric, factor, label.
CURVES = (("seconds", 1, "seconds per explanation"), ("same_kp", 100, "Same-KP, %"), ("edits", 1, "edits"))


@TABLES.register("distractors")
def distractors(lab: TableContext) -> Result:
    """Return time and metrics for one to twenty distractors."""
    counts = [n for n in COUNTS if n <= lab.config.distractors]
    rows = []
    figure = Figure(figsize=(9.6, 3.3), layout="constrained")
    axes = figure.subplots(1, len(CURVES))
    for method, title, settings, colour in METHODS:
        scored = [lab.scores(method, settings, distractors=n) for n in counts]
        rows += [Row([title, n], scores) for n, scores in zip(counts, scored, strict=True)]
        for axis, (metric, factor, label) in zip(axes, CURVES, strict=True):
            axis.plot(counts, [factor * (s[metric].all or 0) for s in scored], "o-", color=colour, label=title)
            axis.set(xlabel="distractors", ylabel=label)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_ylim(bottom=0)
    axes[-1].legend(frameon=False, fontsize=8)
    metrics = ["near_kp", "same_kp", "edits", "seconds", "evaluations"]
    title, note = "Number of distractors, all edits", lab.note(distractors=False)
    return lab.result(title, ["method", "n"], metrics, rows, paper=None, note=note, figures={"distractors": figure})
