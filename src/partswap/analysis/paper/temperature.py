"""Fig. 4: the weight and temperature of the semantic term, and Same-KP against the number of edits."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from partswap.analysis.paper.context import TABLES, Result, Row, TableContext
from partswap.analysis.tune import LAMBDAS, Point, trade_off_axis

TAUS = (0.05, 0.1, 0.2)
COLOURS = {"paper": "#ee6677", "partswap": "#4477aa"}
TITLES = {"paper": "Vandenhende et al.", "partswap": "partswap (ours)"}


@TABLES.register("temperature")
def temperature(lab: TableContext) -> Result:
    """Return the sweep for the paper's method and ours."""
    rows = []
    points: dict[str, list[Point]] = {"paper": [], "partswap": []}
    for method, of_method in points.items():
        # Without the semantic term the temperature does not matter.
        for lam, tau in ((0.0, TAUS[0]), *((lam, tau) for tau in TAUS for lam in LAMBDAS if lam)):
            scores = lab.scores(method, {"lam": lam, "tau": tau})
            rows.append(Row([TITLES[method], f"{lam:g}", f"{tau:g}" if lam else "any"], scores))
            point = Point.of(lam, tau, scores)
            of_method += [] if point is None else [point]
    beaten, count = dominated(points["paper"], points["partswap"])
    note = f"{lab.note()} For {beaten} of {count} points of the paper's method ours has one that is no worse in "
    note += "Same-KP, #Edits and flipped."
    figures = {"temperature": _sweep(points["paper"]), "pareto": _pareto(points)} if points["paper"] else {}
    title, metrics = "Weight and temperature, all edits", ["near_kp", "same_kp", "edits", "flip_rate"]
    return lab.result(title, ["method", "lam", "tau"], metrics, rows, paper=None, note=note, figures=figures)


def dominated(others: Sequence[Point], ours: Sequence[Point]) -> tuple[int, int]:
    """Return how many of their points have one of ours that is no worse in anything, and how many there are."""
    beaten = sum(
        any(q.same_kp >= p.same_kp and q.edits <= p.edits and q.flip_rate >= p.flip_rate for q in ours) for p in others
    )
    return beaten, len(others)


def _line(points: Sequence[Point], tau: float) -> tuple[list[float], list[float], list[float]]:
    """Return lam, Same-KP in per cent and the number of edits of one temperature."""
    line = sorted((p for p in points if p.tau == tau or not p.lam), key=lambda p: p.lam)
    return [p.lam for p in line], [100 * p.same_kp for p in line], [p.edits for p in line]


def _sweep(points: Sequence[Point]) -> Figure:
    """Same-KP and number of edits against lam, one line per temperature, as in the paper."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, tau in zip(("#4477aa", "#228833", "#ee6677"), TAUS, strict=False):
        lams, same, edits = _line(points, tau)
        left.plot(lams, same, "o-", color=colour, label=f"tau = {tau:g}")
        right.plot(lams, edits, "o-", color=colour, label=f"tau = {tau:g}")
    for axis, label in ((left, "Same-KP, %"), (right, "edits")):
        axis.set(xlabel="lam", ylabel=label)
        axis.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    return figure


def _pareto(points: dict[str, list[Point]]) -> Figure:
    """Same-KP against the number of edits, one line per method and temperature."""
    figure = Figure(figsize=(6.2, 4.4), layout="constrained")
    axis = trade_off_axis(figure)
    for method, of_method in points.items():
        for style, tau in zip(("-", "--", ":"), TAUS, strict=False):
            _, same, edits = _line(of_method, tau)
            label = f"{TITLES[method]}, tau = {tau:g}"
            axis.plot(edits, same, f"o{style}", color=COLOURS[method], ms=4, label=label)
    axis.legend(frameon=False, fontsize=8)
    return figure
