"""What a metric is, and how scores of many explanations become one number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

from partswap.data.on_grid import CellFacts
from partswap.results.counterfactual import Counterfactual
from partswap.utils.estimates import Estimate, Interval, interval, mean
from partswap.utils.registry import Registry

T = TypeVar("T")
Parts = frozenset[str]


class Swap(NamedTuple):
    """What the two cells of an edit hold, the query's first; None unless both images are annotated."""

    keypoints: tuple[Parts, Parts] | None  #: Parts with a keypoint in the cell.
    shows: tuple[Parts, Parts] | None  #: Parts that can be seen in the cell.
    object: tuple[bool, bool] | None  #: Whether the object reaches into the cell.
    differing: Parts | None  #: Parts in which the two classes truly differ.


@dataclass(frozen=True)
class Evidence:
    """What is known about the images of one explanation."""

    query: CellFacts
    distractors: Sequence[CellFacts]
    differing: Parts | None = None  #: Parts in which the two classes truly differ, None if unknown.

    def swaps(self, cf: Counterfactual) -> list[Swap]:
        """Return what is known about each edit of an explanation."""
        found = []
        for edit in cf.edits:
            mine, theirs = self.query, self.distractors[edit.distractor_image]
            cells = edit.query_cell, edit.image_cell
            found.append(
                Swap(
                    _of_cells(mine.keypoints, theirs.keypoints, cells),
                    _of_cells(mine.shows, theirs.shows, cells),
                    _of_cells(mine.object, theirs.object, cells),
                    self.differing,
                )
            )
        return found


def _of_cells(mine: Sequence[T] | None, theirs: Sequence[T] | None, cells: tuple[int, int]) -> tuple[T, T] | None:
    return None if mine is None or theirs is None else (mine[cells[0]], theirs[cells[1]])


@dataclass(frozen=True)
class Score:
    """A metric over many explanations; intervals hold it with 95 % confidence (bootstrap over explanations)."""

    #: Mean over first edits; None for metrics of whole explanations.
    single: float | None
    #: Mean over all edits of all explanations, or over explanations; None if nothing could be scored.
    all: float | None
    count: int  #: How many edits (or explanations) `all` is the mean of.
    single_interval: Interval | None = None
    all_interval: Interval | None = None

    def estimate(self, which: str) -> Estimate:
        """Return the mean and interval of first edits ("single") or of all ("all")."""
        return Estimate(getattr(self, which), getattr(self, f"{which}_interval"), self.count)


class Metric(ABC):
    """Scores one explanation at a time; an `EditMetric` scores one edit at a time."""

    title: ClassVar[str]  #: For tables.
    percent: ClassVar[bool] = True  #: Whether to show it as a percentage.
    single: ClassVar[bool] = True  #: Whether first edits alone have a score; seconds or the number of edits have none.
    lower_is_better: ClassVar[bool] = False  #: Whether the best of several methods has the lowest value.

    @property
    def ways(self) -> tuple[str, ...]:
        """Which scores it has: of first edits and of all, or only of all."""
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

    def compute(self, explained: Iterable[tuple[Counterfactual, Evidence]], *, resamples: int = 0) -> Score:
        """Return the metric over many explanations, each with what is known about its images.

        `resamples` is how often explanations are drawn for the intervals; 0 leaves them out.
        """
        first: list[float | None] = []
        sums: list[float] = []
        counts: list[int] = []
        for cf, evidence in explained:
            if scores := self.scores(cf, evidence):
                first.append(self.first(cf, evidence))
                sums.append(sum(scores))
                counts.append(len(scores))
        known = [score for score in first if score is not None]
        total = sum(counts)
        drawn = resamples > 0
        return Score(
            mean(known),
            sum(sums) / total if total else None,
            total,
            interval(known, resamples=resamples) if drawn else None,
            interval(sums, counts, resamples=resamples) if drawn else None,
        )

    def show(self, value: float | None, bounds: Interval | None = None) -> str:
        """Return a value as a table shows it, with its interval if there is one."""
        estimate = self.cell(Estimate(value, bounds))
        return estimate.show(digits=estimate.digits or 0)

    def cell(self, estimate: Estimate) -> Estimate:
        """Return an estimate as tables show it: as a percentage where the metric is one."""
        return estimate.scaled(100.0, digits=1) if self.percent else estimate.scaled(1.0, digits=2)


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
    explained: Sequence[tuple[Counterfactual, Evidence]], names: Sequence[str] | None = None, *, resamples: int = 0
) -> dict[str, Score]:
    """Return the scores of many explanations under the named metrics (all of them by default).

    `resamples` is how often explanations are drawn for 95 % intervals (1000 is usual); 0 leaves them out.
    """
    return {name: METRICS.get(name)().compute(explained, resamples=resamples) for name in names or METRICS.names()}
