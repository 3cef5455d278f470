"""``partswap tune``: choose `lam` and `tau` for a classifier and an auxiliary (the paper's Fig. 4).

More weight on semantics gives more edits that swap like for like, and more edits. Which pair of values is best depends
on how peaked the classifier is and on how the auxiliary's cosines spread, so it is measured on images that are not the
test images, and the choice is the knee of the curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from partswap.errors import FileFormatError, SettingError
from partswap.metrics import Score, score_all
from partswap.metrics.base import all_known
from partswap.runs.context import RunContext
from partswap.runs.tasks import explain_tasks, plan_tasks
from partswap.search import METHODS, Method
from partswap.search.settings import changed
from partswap.utils.files import read_json, write_with
from partswap.utils.progress import Track, no_progress
from partswap.utils.tables import ResultTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAMBDAS = (0.0, 0.1, 0.2, 0.4, 0.8)
TAUS = (0.03, 0.1, 0.3)


@dataclass(frozen=True)
class Point:
    """What one pair of settings gives, over all edits."""

    lam: float
    tau: float
    same_kp: float
    near_kp: float
    edits: float
    flip_rate: float

    @classmethod
    def of(cls, lam: float, tau: float, scores: Mapping[str, Score]) -> Point | None:
        """Return the point of some scores, None if one of them is missing."""
        values = all_known(scores[name].all for name in ("same_kp", "near_kp", "edits", "flip_rate"))
        return None if values is None else cls(lam, tau, *values)


@dataclass(frozen=True)
class Tuning:
    """All pairs that were tried, the chosen one, and on which images."""

    method: str
    points: list[Point]
    best: Point
    note: str

    def table(self) -> ResultTable:
        """Return every pair, the chosen one marked."""
        front = pareto(self.points)
        rows = [
            [p.lam, p.tau, 100 * p.same_kp, 100 * p.near_kp, p.edits, 100 * p.flip_rate,
             "chosen" if p == self.best else "front" if p in front else ""]
            for p in self.points
        ]  # fmt: skip
        columns = ["lam", "tau", "Same-KP", "Near-KP", "#Edits", "flipped", ""]
        return ResultTable(f"lam and tau for {self.method}", columns, rows, self.note, digits=2)

    def plot(self, path: Path) -> Path:
        """Draw Same-KP against the number of edits, one line per temperature, the front and the choice marked."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axis = trade_off_axis(figure)
        taus = sorted({p.tau for p in self.points})
        colours = ["#4477aa", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#66ccee"]
        for colour, tau in zip(colours * len(taus), taus, strict=False):
            line = sorted((p for p in self.points if p.tau == tau), key=lambda p: p.lam)
            places = [(p.edits, 100 * p.same_kp) for p in line]
            axis.plot(*zip(*places, strict=True), "o-", color=colour, label=f"tau = {tau:g}")
            for p, place in zip(line, places, strict=True):
                axis.annotate(f"{p.lam:g}", place, textcoords="offset points", xytext=(5, -10), fontsize=8,
                              color=colour)  # fmt: skip
        best = (self.best.edits, 100 * self.best.same_kp)
        axis.plot(*best, "o", ms=15, mfc="none", mec="black", mew=1.5)
        axis.annotate(f"lam = {self.best.lam:g}, tau = {self.best.tau:g}", best, textcoords="offset points",
                      xytext=(14, 8), fontsize=10)  # fmt: skip
        axis.margins(0.12)
        axis.legend(frameon=False, loc="lower right", title="numbers: lam")
        write_with(path, lambda file: figure.savefig(file, format="png", dpi=130), place="out")
        return path

    def record(self) -> dict[str, Any]:
        """Return the choice and all points as plain values."""
        return {"method": self.method, "best": vars(self.best), "points": [vars(p) for p in self.points]}


def tune(
    bench: RunContext,
    *,
    method: str = "partswap",
    lambdas: Sequence[float] = LAMBDAS,
    taus: Sequence[float] = TAUS,
    queries: int | None = 100,
    distractors: int = 20,
    seed: int = 0,
    track: Track = no_progress,
) -> Tuning:
    """Try all pairs on some images of the bench's split and choose one.

    Use a split that is not the one results are reported on.
    """
    tried = trials(method, lambdas, taus)
    if bench.auxiliary is None:
        raise SettingError("there is no auxiliary to tune for.", "Name one with {auxiliary}.")
    if not bench.data.parts:
        raise SettingError("this data set has no keypoints to tune by.", "Use the values of a similar one.")
    planned = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=distractors, seed=seed)
    tasks = planned.first(queries, seed=seed)
    points = []
    for (lam, tau), variant in tried.items():
        explanations = explain_tasks(
            bench.explainer, bench.encodings, tasks.tasks, variant, track=track, title=f"lam {lam:g}, tau {tau:g}",
        )  # fmt: skip
        point = Point.of(lam, tau, score_all([(cf, bench.facts.evidence(task)) for task, cf in explanations]))
        if point is None:
            raise SettingError("nothing flipped, so there is nothing to compare.", "Use more queries or another lam.")
        points.append(point)
    note = (
        f"{len(tasks)} images of {bench.data.split}, up to {distractors} distractors, "
        f"{bench.classifier.architecture}, auxiliary {bench.auxiliary.name}."
    )
    return Tuning(method, points, knee(points), note)


def trials(method: str, lambdas: Sequence[float], taus: Sequence[float]) -> dict[tuple[float, float], Method]:
    """Return the method with every pair ``(lam, tau)``; an error if it has none, or a value makes no sense."""
    base = METHODS.get(method)()
    if not base.takes("lam") or not base.takes("tau"):
        raise SettingError(f"the method {method} has no lam and tau.", "Tune partswap or paper.")
    return {(lam, tau): changed(base, lam=lam, tau=tau) for tau, lam in product(taus, lambdas)}


def read_choice(path: Path) -> tuple[str, dict[str, float]]:
    """Return the method and its lam and tau that a ``tune.json`` tells."""
    content = read_json(path)
    try:
        method, best = content["method"], {name: float(content["best"][name]) for name in ("lam", "tau")}
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is not what partswap tune wrote.", "Give its tune.json.") from error
    if method not in ("paper", "partswap"):
        raise SettingError(f"{path} is about the method {method}.", "Tune paper or partswap.")
    return method, best


def trade_off_axis(figure: Figure) -> Axes:
    """Return an axis for Same-KP against the number of edits: up and to the left is better."""
    axis = figure.subplots()
    axis.set_xlabel("edits until the decision flips (fewer is better)")
    axis.set_ylabel("Same-KP, all edits, % (more is better)")
    axis.spines[["top", "right"]].set_visible(False)
    return axis


def pareto(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats in both Same-KP and number of edits."""

    def beats(q: Point, p: Point) -> bool:
        return q.same_kp >= p.same_kp and q.edits <= p.edits and (q.same_kp, q.edits) != (p.same_kp, p.edits)

    return [p for p in points if not any(beats(q, p) for q in points)]


def knee(points: Sequence[Point]) -> Point:
    """Return the point of the front that is farthest above the line between its ends, both axes scaled to 0..1."""
    front = sorted(pareto(points), key=lambda p: p.edits)
    edits = np.array([p.edits for p in front])
    same = np.array([p.same_kp for p in front])
    across, up = float(np.ptp(edits)) or 1.0, float(np.ptp(same)) or 1.0
    above = (same - same[0]) / up - (edits - edits[0]) / across
    best = above.max()
    return max((p for p, a in zip(front, above, strict=True) if a >= best - 1e-9), key=lambda p: p.same_kp)
