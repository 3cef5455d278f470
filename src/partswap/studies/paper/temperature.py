"""Fig. 4: the weight and temperature of the semantic term, and Same-KP against the number of edits."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from partswap.studies.paper.lab import PAPER, Lab, Result, cell
from partswap.studies.tables import Cell, ResultTable
from partswap.studies.tune import Point

LAMBDAS = (0.0, 0.1, 0.2, 0.4, 0.8)
TAUS = (0.05, 0.1, 0.2)
COLOURS = {"paper": "#ee6677", "partswap": "#4477aa"}
TITLES = {"paper": "Vandenhende et al.", "partswap": "partswap (ours)"}


@PAPER.register("temperature")
def temperature(lab: Lab) -> Result:
    """Return the sweep for the paper's method and ours."""
    rows: list[list[Cell]] = []
    points: dict[str, list[Point]] = {"paper": [], "partswap": []}
    for method, mine in points.items():
        # Without the semantic term the temperature does not matter.
        for lam, tau in ((0.0, TAUS[0]), *((lam, tau) for tau in TAUS for lam in LAMBDAS if lam)):
            scores = lab.scores(method, {"lam": lam, "tau": tau})
            numbers = [cell(scores, name) for name in ("near_kp", "same_kp", "edits", "flip_rate")]
            rows.append([TITLES[method], f"{lam:g}", f"{tau:g}" if lam else "any", *numbers])
            values = [scores[name].all for name in ("same_kp", "near_kp", "edits", "flip_rate")]
            if None not in values:
                same, near, edits, flipped = (float(v or 0) for v in values)
                mine.append(Point(lam, tau, same, near, edits, flipped))
    columns = ["method", "lam", "tau", "Near-KP", "Same-KP", "#Edits", "flipped"]
    beaten, count = dominated(points["paper"], points["partswap"])
    note = f"{lab.note()} For {beaten} of {count} points of the paper's method ours has one that is no worse in "
    note += "Same-KP, #Edits and flipped."
    table = ResultTable("Weight and temperature, all edits", columns, rows, note, digits=2)
    figures = {"temperature": _sweep(points["paper"]), "pareto": _pareto(points)} if points["paper"] else {}
    return Result(table, figures)


def dominated(theirs: Sequence[Point], ours: Sequence[Point]) -> tuple[int, int]:
    """Return for how many of their points ours has one no worse in anything, and how many there are."""
    beaten = sum(
        any(q.same_kp >= p.same_kp and q.edits <= p.edits and q.flip_rate >= p.flip_rate for q in ours) for p in theirs
    )
    return beaten, len(theirs)


def _sweep(points: Sequence[Point]) -> Figure:
    """Same-KP and number of edits against lam, one line per temperature, as in the paper."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, tau in zip(("#4477aa", "#228833", "#ee6677"), TAUS, strict=False):
        line = sorted((p for p in points if p.tau == tau or not p.lam), key=lambda p: p.lam)
        left.plot([p.lam for p in line], [100 * p.same_kp for p in line], "o-", color=colour, label=f"tau = {tau:g}")
        right.plot([p.lam for p in line], [p.edits for p in line], "o-", color=colour, label=f"tau = {tau:g}")
    left.set_ylabel("Same-KP, %")
    right.set_ylabel("edits")
    for axis in (left, right):
        axis.set_xlabel("lam")
        axis.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    return figure


def _pareto(points: dict[str, list[Point]]) -> Figure:
    """Same-KP against the number of edits: up and to the left is better."""
    figure = Figure(figsize=(6.2, 4.4), layout="constrained")
    axis = figure.subplots()
    for method, mine in points.items():
        for number, tau in enumerate(TAUS):
            line = sorted((p for p in mine if p.tau == tau or not p.lam), key=lambda p: p.lam)
            style = ("-", "--", ":")[number]
            label = f"{TITLES[method]}, tau = {tau:g}"
            x, y = [p.edits for p in line], [100 * p.same_kp for p in line]
            axis.plot(x, y, f"o{style}", color=COLOURS[method], ms=4, label=label)
    axis.set_xlabel("edits until the decision flips (fewer is better)")
    axis.set_ylabel("Same-KP, all edits, % (more is better)")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
    return figure
