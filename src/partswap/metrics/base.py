"""What a metric is, and how scores of many explanations become one number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partswap.counterfactual import Counterfactual, Edit
from partswap.data.on_grid import CellFacts
from partswap.grid import GridShape
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
    """

    single: float | None
    all: float | None
    count: int


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
    """

    title: str
    percent: bool = True
    per_edit: bool = True

    @abstractmethod
    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return one score per edit (or a single one), None if the annotations it needs are missing."""

    def compute(self, explained: Iterable[tuple[Counterfactual, Evidence]]) -> Score:
        """Return the metric over many explanations."""
        first: list[float] = []
        every: list[float] = []
        for cf, evidence in explained:
            scores = self.scores(cf, evidence)
            if scores:
                first.append(scores[0])
                every.extend(scores)
        single = sum(first) / len(first) if first and self.per_edit else None
        return Score(single, sum(every) / len(every) if every else None, len(every))

    def show(self, value: float | None) -> str:
        """Return a value as a table shows it."""
        if value is None:
            return "-"
        return f"{100 * value:.1f}" if self.percent else f"{value:.2f}"


METRICS: Registry[type[Metric]] = Registry("metric", "partswap.metrics")


def score_all(
    explained: Sequence[tuple[Counterfactual, Evidence]], names: Sequence[str] | None = None
) -> dict[str, Score]:
    """Return the scores of many explanations under the named metrics (all of them by default)."""
    return {name: METRICS.get(name)().compute(explained) for name in names or METRICS.names()}
