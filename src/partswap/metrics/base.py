"""What a metric is, and how scores of many explanations become one number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

from partswap.counterfactual import Counterfactual
from partswap.data.on_grid import CellFacts
from partswap.metrics.bootstrap import Interval, interval, mean, show_interval
from partswap.registry import Registry

T = TypeVar("T")
Parts = frozenset[str]


class Swap(NamedTuple):
    """What the two cells of an edit hold, the query's first; None unless both images are annotated.

    Attributes
    ----------
    keypoints : tuple of frozenset of str or None
        Parts with a keypoint in the cell.
    shows : tuple of frozenset of str or None
        Parts that can be seen in the cell.
    object : tuple of bool or None
        Whether the object reaches into the cell.
    differing : frozenset of str or None
        Parts in which the two classes truly differ.
    """

    keypoints: tuple[Parts, Parts] | None
    shows: tuple[Parts, Parts] | None
    object: tuple[bool, bool] | None
    differing: Parts | None


@dataclass(frozen=True)
class Evidence:
    """What is known about the images of one explanation.

    Attributes
    ----------
    query : CellFacts
        Of the query.
    distractors : Sequence[CellFacts]
        Of each distractor.
    differing : frozenset of str or None
        Parts in which the two classes truly differ, None if nobody knows.
    """

    query: CellFacts
    distractors: Sequence[CellFacts]
    differing: frozenset[str] | None = None

    def swaps(self, cf: Counterfactual) -> list[Swap]:
        """Return what is known about each edit of an explanation."""
        return [
            self._swap(edit.query_cell, self.distractors[edit.distractor_image], edit.distractor_cell % cf.grid.cells)
            for edit in cf.edits
        ]

    def _swap(self, i: int, distractor: CellFacts, j: int) -> Swap:
        def both(mine: Sequence[T] | None, theirs: Sequence[T] | None) -> tuple[T, T] | None:
            return None if mine is None or theirs is None else (mine[i], theirs[j])

        return Swap(
            both(self.query.keypoints, distractor.keypoints),
            both(self.query.shows, distractor.shows),
            both(self.query.object, distractor.object),
            self.differing,
        )


@dataclass(frozen=True)
class Score:
    """A metric over many explanations.

    Attributes
    ----------
    single : float or None
        Mean over first edits; None for metrics of whole explanations.
    all : float or None
        Mean over all edits of all explanations, or over explanations; None if nothing could be scored.
    count : int
        How many edits (or explanations) `all` is the mean of.
    single_interval, all_interval : tuple of float or None
        Where the two lie with 95 % confidence (bootstrap over explanations), if it was asked for.
    """

    single: float | None
    all: float | None
    count: int
    single_interval: Interval | None = None
    all_interval: Interval | None = None


class Metric(ABC):
    """Scores one explanation at a time; an `EditMetric` scores one edit at a time.

    Class attributes
    ----------------
    title : str
        For tables.
    percent : bool
        Whether to show it as a percentage.
    single : bool
        Whether first edits alone have a score; what is known without annotations (seconds, number of edits) has none.
    lower_is_better : bool
        Whether the best of several methods is the one with the lowest value.
    """

    title: ClassVar[str]
    percent: ClassVar[bool] = True
    single: ClassVar[bool] = True
    lower_is_better: ClassVar[bool] = False

    @property
    def ways(self) -> tuple[str, ...]:
        """What it is computed over: first edits and all of them, or only all."""
        return ("single", "all") if self.single else ("all",)

    def heading(self, which: str) -> str:
        """Return its title where both ways stand side by side."""
        return f"{self.title} {which}" if self.single else self.title

    @abstractmethod
    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return the explanation's score, or one per edit; None if the annotations it needs are missing."""

    def first(self, cf: Counterfactual, evidence: Evidence) -> float | None:
        """Return the score of the first edit alone, None where there is none."""
        if not self.single or not cf.edits:
            return None
        scores = self.scores(replace(cf, edits=cf.edits[:1], trace=cf.trace[:1]), evidence)
        return scores[0] if scores else None

    def compute(
        self, explained: Iterable[tuple[Counterfactual, Evidence]], *, resamples: int = 0, seed: int = 0
    ) -> Score:
        """Return the metric over many explanations.

        Parameters
        ----------
        explained : iterable of tuple
            Counterfactuals, each with what is known about its images.
        resamples : int
            How often to draw explanations for the intervals; 0 leaves them out.
        seed : int
            For the draws.
        """
        first: list[float] = []
        sums: list[float] = []
        counts: list[int] = []
        for cf, evidence in explained:
            scores = self.scores(cf, evidence)
            if not scores:
                continue
            sums.append(sum(scores))
            counts.append(len(scores))
            alone = self.first(cf, evidence)
            if alone is not None:
                first.append(alone)
        total = sum(counts)
        drawn = resamples > 0
        return Score(
            mean(first),
            sum(sums) / total if total else None,
            total,
            interval(first, resamples=resamples, seed=seed) if drawn else None,
            interval(sums, counts, resamples=resamples, seed=seed) if drawn else None,
        )

    def show(self, value: float | None, bounds: Interval | None = None) -> str:
        """Return a value as a table shows it, with its interval if there is one."""
        if value is None:
            return "-"
        factor, digits = (100.0, 1) if self.percent else (1.0, 2)
        text = f"{factor * value:.{digits}f}"
        return text if bounds is None else f"{text} {show_interval(bounds, factor=factor, digits=digits)}"


class EditMetric(Metric):
    """Scores one edit at a time."""

    @abstractmethod
    def score(self, swap: Swap) -> float | None:
        """Return the score of one edit, None if the annotations it needs are missing."""

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return one score per edit, None unless every edit has one."""
        return all_known(self.score(swap) for swap in evidence.swaps(cf))


def all_known(values: Iterable[T | None]) -> list[T] | None:
    """Return the values, None if one of them is missing."""
    found = list(values)
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None


METRICS: Registry[type[Metric]] = Registry("metric", "partswap.metrics")


def score_all(
    explained: Sequence[tuple[Counterfactual, Evidence]],
    names: Sequence[str] | None = None,
    *,
    resamples: int = 0,
    seed: int = 0,
) -> dict[str, Score]:
    """Return the scores of many explanations under the named metrics (all of them by default).

    `resamples` is how often explanations are drawn for 95 % intervals (1000 is usual); 0 leaves them out.
    """
    return {
        name: METRICS.get(name)().compute(explained, resamples=resamples, seed=seed)
        for name in names or METRICS.names()
    }
