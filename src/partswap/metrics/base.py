"""What a metric is, and how scores of many explanations become one number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from partswap.counterfactual import Counterfactual, Edit
from partswap.data.on_grid import CellFacts
from partswap.grid import GridShape
from partswap.metrics.bootstrap import Interval, interval, mean, show_interval
from partswap.registry import Registry


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

    def cells(self, edit: Edit, grid: GridShape) -> tuple[CellFacts, int, CellFacts, int]:
        """Return facts and local cell of both sides of an edit."""
        return (
            self.query,
            edit.query_cell,
            self.distractors[edit.distractor_image],
            edit.distractor_cell % grid.cells,
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
    """Scores one explanation at a time.

    Class attributes
    ----------------
    title : str
        For tables.
    percent : bool
        Whether to show it as a percentage.
    per_edit : bool
        Whether it scores every edit, or the explanation as a whole.
    single : bool
        Whether first edits alone have a score; what is known without annotations (seconds, number of edits) has none.
    """

    title: str
    percent: bool = True
    per_edit: bool = True
    single: bool = True

    @property
    def ways(self) -> tuple[str, ...]:
        """What it is computed over: first edits and all of them, or only all."""
        return ("single", "all") if self.single else ("all",)

    def heading(self, which: str) -> str:
        """Return its title where both ways stand side by side."""
        return f"{self.title} {which}" if self.single else self.title

    @abstractmethod
    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return one score per edit (or a single one), None if the annotations it needs are missing."""

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
            alone = scores[0] if self.per_edit else self.first(cf, evidence)
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
