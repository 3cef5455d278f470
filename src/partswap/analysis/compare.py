"""``partswap compare``: two runs on the same images, metric by metric and image by image.

Differences are paired: only images that both runs explain count, and one resample draws the same images for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partswap.data.base import Dataset
from partswap.errors import SettingError
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.metrics import METRICS
from partswap.results.counterfactual import Counterfactual
from partswap.runs.figures import picture_of, save_stack, with_pictures
from partswap.runs.folder import Run, read_run
from partswap.runs.tasks import AnnotationCache, Task
from partswap.utils.estimates import TAILS, Estimate, resampled
from partswap.utils.progress import Track, no_progress, step, tracked
from partswap.utils.tables import Cell, ResultTable

Explained = tuple[Task, Counterfactual]
#: By metric and whether of the first edit or of all: the sum of an explanation's scores, and how many there are.
Scores = Mapping[tuple[str, str], tuple[float, float]]
#: In words, the images that a run explains.
WHICH = {
    "right": "images that the model gets right",
    "wrong": "misclassified images, towards their true class",
    "all": "images that the model gets right and others, these towards their true class",
}
#: How many images are drawn for each method.
PICTURES = 4


@dataclass(frozen=True)
class Difference:
    """One metric in two runs, over the images both explain; None where nothing could be scored."""

    methods: tuple[str, str]
    metric: str
    #: Whether first edits are scored ("single") or all of them.
    which: str
    first: float | None
    second: float | None
    #: ``second - first``, over the images that both explain.
    change: Estimate


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs."""

    runs: tuple[Run, Run]
    differences: list[Difference]
    #: By pair of methods: the images that differ most, with both explanations.
    most: dict[tuple[str, str], list[tuple[Explained, Explained]]] = field(repr=False)
    data: Dataset = field(repr=False)
    preprocess: tuple[Preprocess, Preprocess]

    def table(self) -> ResultTable:
        """Return all differences; percentages where the metric is one."""
        rows: list[list[Cell]] = []
        for d in self.differences:
            metric = METRICS.get(d.metric)()
            scale = 100.0 if metric.percent else 1.0
            values = [d.first, d.second, d.change.mean, *(d.change.interval or (None, None))]
            row: list[Cell] = [None if value is None else scale * value for value in values]
            clear = "yes" if d.change.excludes_zero else "no"
            rows.append([_title(d.methods), metric.heading(d.which), *row, clear, d.change.count])
        columns = ["method", "metric", "first", "second", "difference", "low", "high", "clear", "images"]
        which = WHICH[self.runs[0].record["settings"].get("only", "right")]
        note = (
            f"First: {self.runs[0].folder}; second: {self.runs[1].folder}; {which}. "
            "Difference: second minus first, with its "
            "95 % interval (bootstrap over the images that both explain); clear if the interval leaves out 0."
        )
        return ResultTable("Comparison of two runs", columns, rows, note, digits=2)

    def names(self) -> dict[str, list[str]]:
        """Return, for each method, the images that differ most."""
        return {
            _title(methods): [self.data.image_name(first[0].query) for first, _ in pairs]
            for methods, pairs in self.most.items()
        }

    def draw(self, folder: Path, track: Track = no_progress) -> list[Path]:
        """Draw, for each method, the images that differ most: the first run's explanation above the second's."""
        saved = []
        for methods, pairs in self.most.items():
            if not pairs:
                continue
            entries = [(*entry, side) for pair in pairs for entry, side in zip(pair, self.preprocess, strict=True)]
            pictures = [
                picture_of(with_pictures(cf, task, self.data, preprocess))
                for task, cf, preprocess in tracked(entries, f"pictures of {_title(methods)}", track)
            ]
            saved.append(save_stack(pictures, folder / f"differences-{_title(methods, '-')}.png"))
        return saved


def compare_runs(
    first: str | Path, second: str | Path, *, samples: int = 2000, seed: int = 0, track: Track = no_progress
) -> Comparison:
    """Compare two runs on the same images; `samples` and `seed` are for the bootstrap.

    A method that both have is compared with itself; if each run has one method, these two are compared.
    """
    runs = read_run(first), read_run(second)
    if samples < 1 or seed < 0:
        raise SettingError(f"samples={samples}, seed={seed}.", "Use at least 1 sample and a seed from 0.")
    if runs[0].record["fingerprints"]["data"] != runs[1].record["fingerprints"]["data"]:
        raise SettingError(f"{first} and {second} explain different images.", "Compare runs of one data set and split.")
    only = [run.record["settings"].get("only", "right") for run in runs]
    if only[0] != only[1]:
        raise SettingError(
            f"{first} explains {WHICH[only[0]]} and {second} {WHICH[only[1]]}.",
            "Compare runs with the same {only}.",
        )
    pairs = [(name, name) for name in runs[0].methods if name in runs[1].methods]
    if len(runs[0].methods) == len(runs[1].methods) == 1:
        pairs = [(runs[0].methods[0], runs[1].methods[0])]
    if not pairs:
        raise SettingError(
            f"{first} has the methods {', '.join(runs[0].methods)} and {second} {', '.join(runs[1].methods)}.",
            "Compare runs with a method in common, or with one method each.",
        )
    with step(track, "opening the data set"):
        data = runs[0].open_data()
    facts = [AnnotationCache(data, r.open_preprocess(), GridShape(*r.record["grid"])) for r in runs]
    differences: list[Difference] = []
    most: dict[tuple[str, str], list[tuple[Explained, Explained]]] = {}
    for methods in pairs:
        with step(track, f"reading explanations of {_title(methods)}"):
            explanations: list[dict[int, Explained]] = [
                {task.query: (task, cf) for task, cf in run.explained(method).values()}
                for run, method in zip(runs, methods, strict=True)
            ]
        queries = sorted(set(explanations[0]) & set(explanations[1]))
        if not queries:
            raise SettingError(f"no image is explained by both {first} and {second}.", "Finish the runs first.")
        scores: tuple[list[Scores], list[Scores]] = ([], [])
        for side, query in tracked(list(product(range(2), queries)), f"metrics of {methods[0]}", track):
            scores[side].append(_scores(*explanations[side][query], facts[side]))
        with step(track, f"intervals of {_title(methods)}"):
            differences += _differences(methods, scores, samples, seed)
        pairs_of = [(explanations[0][query], explanations[1][query]) for query in queries]
        far = [_distance(a, b) + _other_edits(*pair) for a, b, pair in zip(*scores, pairs_of, strict=True)]
        top = np.argsort([-distance for distance in far], kind="stable")[:PICTURES].tolist()
        most[methods] = [pairs_of[k] for k in top if far[k] > 0]
    return Comparison(runs, differences, most, data, (facts[0].preprocess, facts[1].preprocess))


def paired_bootstrap(
    first: NDArray[np.float64], second: NDArray[np.float64], *, samples: int = 2000, seed: int = 0
) -> tuple[float, float] | None:
    """Return the 95 % interval of the difference of two ratios whose parts come from the same images.

    Both are ``(images, 2)``: the sum of an image's scores, and how many there are. None if more than half of the
    resamples have no score on one side.
    """
    # One seed draws the same images for both.
    old, new = (resampled(side[:, 0], side[:, 1], resamples=samples, seed=seed) for side in (first, second))
    changes = new - old
    changes = changes[~np.isnan(changes)]
    if len(changes) < max(1, samples // 2):
        return None
    low, high = np.quantile(changes, TAILS)
    return float(low), float(high)


def _title(methods: tuple[str, str], between: str = " / ") -> str:
    return between.join(dict.fromkeys(methods))


def _scores(task: Task, cf: Counterfactual, facts: AnnotationCache) -> Scores:
    evidence = facts.evidence(task, cf.query_class)
    scores: dict[tuple[str, str], tuple[float, float]] = {}
    for name in METRICS.names():
        metric = METRICS.get(name)()
        every = metric.scores(cf, evidence) or []
        scores[name, "all"] = (float(sum(every)), float(len(every)))
        if metric.single:
            first = metric.first(cf, evidence) if every else None
            scores[name, "single"] = (0.0, 0.0) if first is None else (first, 1.0)
    return scores


def _differences(
    methods: tuple[str, str], scores: Sequence[Sequence[Scores]], samples: int, seed: int
) -> list[Difference]:
    out = []
    for name in METRICS.names():
        for which in METRICS.get(name)().ways:
            parts = [np.array([row[name, which] for row in side]) for side in scores]
            first, second = (total / count if count else None for total, count in (side.sum(0) for side in parts))
            change = Estimate(None, count=len(scores[0]))
            if first is not None and second is not None:
                interval = paired_bootstrap(*parts, samples=samples, seed=seed)
                change = Estimate(second - first, interval, len(scores[0]))
            out.append(Difference(methods, name, which, first, second, change))
    return [d for d in out if d.first is not None or d.second is not None]


def _distance(first: Scores, second: Scores) -> float:
    """Return how differently two explanations of an image are scored: percentages, and edits a little."""
    total = 0.0
    for name in METRICS.names():
        (a, n), (b, m) = first[name, "all"], second[name, "all"]
        weight = 1.0 if METRICS.get(name)().percent else 0.1 if name == "edits" else 0.0
        total += weight * abs(a / n - b / m) if n and m else 0.0
    return total


def _other_edits(first: Explained, second: Explained) -> float:
    """Return how few swaps two explanations share, from 0 (all) to 1: there are images without any annotations."""
    first_swaps, second_swaps = (
        {(e.query_cell, task.distractors[e.distractor_image], e.image_cell) for e in cf.edits}
        for task, cf in (first, second)
    )
    return 1 - len(first_swaps & second_swaps) / len(first_swaps | second_swaps) if first_swaps | second_swaps else 0.0
