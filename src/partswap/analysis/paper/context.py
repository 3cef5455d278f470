"""How the paper's tables are made: every row is a run on disk, so tables share rows, and a killed one goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from partswap.data.base import digest
from partswap.errors import SettingError
from partswap.metrics import METRICS, Score
from partswap.models.auxiliaries import AuxiliaryChoice
from partswap.models.fingerprint import model_fingerprint
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext, open_run_context
from partswap.runs.run import Run, plan_run, run
from partswap.search import METHODS
from partswap.utils.files import read_json, write_with
from partswap.utils.progress import Track, no_progress
from partswap.utils.registry import Registry
from partswap.utils.tables import Cell, ResultTable

#: The three methods most tables compare: name, title, settings.
COMPARED: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("goyal", "Goyal et al.", {}),
    ("paper", "Vandenhende et al.", {"keep": 0.1}),
    ("partswap", "partswap", {}),
)
#: Headings of metrics that are not their titles.
HEADINGS = {"flip_rate": "flipped", "seconds": "seconds", "evaluations": "evaluations"}


class Row(NamedTuple):
    """A row of a table: its first cells, the metrics of a run, and what the paper published."""

    start: Sequence[Cell]
    scores: Mapping[str, Score]
    published: str | None = None


@dataclass(frozen=True)
class Result:
    """A table, with figures by name where the paper has them."""

    table: ResultTable
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the table as Markdown and CSV and each figure as PNG and SVG; returns the paths."""
        paths = self.table.save(folder, name)
        for title, figure in self.figures.items():
            for suffix in ("png", "svg"):
                path = folder / f"{title}.{suffix}"
                write_with(path, partial(figure.savefig, format=suffix, dpi=140), place="out")
                paths.append(path)
        return paths


@dataclass(frozen=True)
class TableContext:
    """Makes the rows of tables."""

    #: Data, classifier, auxiliary and how many images; each row changes some of it.
    config: RunConfig
    #: Folder of all runs; one that was made before is read.
    runs: Path
    #: Rows of the auxiliary table.
    auxiliaries: Sequence[AuxiliaryChoice] = ()
    #: Methods with the lam and tau that `tune` chose for them.
    tuned: Sequence[tuple[str, Mapping[str, float]]] = ()
    #: What ``partswap train words`` made, for the table of words.
    words: Path | None = None
    track: Track = field(default=no_progress, repr=False)

    @cached_property
    def bench(self) -> RunContext:
        """Data, classifier and auxiliary."""
        return open_run_context(self.config, self.track)

    @property
    def family(self) -> str:
        """What the paper would call the classifier: ``"vgg"``, ``"resnet"``, or its own name."""
        name = self.bench.classifier.architecture.lower()
        return next((family for family in ("vgg", "resnet") if family in name), name)

    @property
    def comparable(self) -> bool:
        """Whether the paper's own numbers for VGG-16 on CUB may stand beside ours."""
        return (self.config.data, self.family) == ("cub", "vgg")

    def published(self, numbers: str | None) -> str | None:
        """Return the paper's numbers for VGG-16 on CUB, None where they cannot be compared with ours."""
        return numbers if self.comparable else None

    def scores(self, method: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Score]:
        """Return the metrics of a run of the split with one method, which is read if it was made before."""
        content = read_json(self.run(method, settings, **changes).folder / "metrics.json")[method]
        return {name: Score(**score) for name, score in content.items()}

    def run(self, method: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> Run:
        """Return a run of the split with one method, which is read if it was made before."""
        config = self.config.with_(methods=(method,), settings={method: dict(settings or {})}, **changes)
        if not METHODS.get(method).semantic:  # one row for all auxiliaries
            config = config.with_(auxiliary=None)
        if "layer" in changes:
            bench = open_run_context(config, self.track)
        elif config.auxiliary != self.config.auxiliary:
            choice = None if config.auxiliary is None else AuxiliaryChoice.parse(config.auxiliary)
            bench = self.bench.with_auxiliary(choice)
        else:
            bench = self.bench
        # Networks are told apart by their weights, not by their paths.
        networks = [bench.classifier.model, *([a.model] if (a := bench.explainer.auxiliary) else [])]
        key = digest(config.identity_fields(), [model_fingerprint(network) for network in networks])
        return run(config.with_(out=self.runs / f"{method}-{key}"), bench=bench, track=self.track)

    def result(
        self,
        title: str,
        first: Sequence[str],
        metrics: Sequence[str],
        rows: Sequence[Row],
        *,
        paper: str | None = "paper",
        note: str | None = None,
        figures: Mapping[str, Figure] | None = None,
    ) -> Result:
        """Return a table: what rows start with, headed `first`, then metrics, then what the paper published.

        `paper` is the heading of the last column, None for a table without it; `note`: by default `TableContext.note`.
        """
        columns = [*first, *(HEADINGS.get(name, METRICS.get(name).title) for name in metrics)]
        cells = [[*row.start, *(cell(row.scores, name) for name in metrics)] for row in rows]
        if paper is not None:
            columns.append(paper)
            cells = [[*cells_of_row, row.published] for cells_of_row, row in zip(cells, rows, strict=True)]
        table = ResultTable(title, columns, cells, self.note() if note is None else note, digits=2)
        return Result(table, figures or {})

    def note(self, *, distractors: bool = True, cut: bool = True) -> str:
        """Return what every table says about its bench."""
        bench = self.bench
        tasks, skipped = plan_run(self.config, bench)
        eligible = len(tasks) + skipped["not_drawn"]
        drawn = f"{len(tasks)} images drawn from the {eligible}" if skipped["not_drawn"] else f"All {eligible}"
        auxiliary = ""
        if bench.auxiliary is not None and bench.explainer.auxiliary is not None:
            chosen = replace(bench.auxiliary, weights=None)
            auxiliary = f", auxiliary {bench.explainer.auxiliary.name if chosen.name == 'auto' else chosen}"
        where = f" cut at {bench.explainer.cut.layer}" if cut else ""
        many = f", up to {self.config.distractors} distractors" if distractors else ""
        return (
            f"{drawn} eligible images of {self.config.data} {self.config.split} ({len(bench.data)} in all, "
            f"{len(bench.data.classes)} classes); {bench.classifier.architecture}{where}{auxiliary}{many}. "
            "± is half of the 95 % bootstrap interval."
        )


def cell(scores: Mapping[str, Score], metric: str, which: str = "all") -> Cell:
    """Return a metric as a table's cell: percentages where it is one, with its interval where there is one."""
    estimate = scores[metric].estimate(which)
    return estimate.scaled(100.0, digits=1) if METRICS.get(metric)().percent else estimate


def make_table(name: str, lab: TableContext) -> Result:
    """Make a table by name."""
    check_table(name, lab.config)
    return TABLES.get(name)(lab)


def check_table(name: str, config: RunConfig) -> None:
    """Raise an error if a table cannot be made with a configuration, before anything is opened."""
    TABLES.get(name)
    if config.auxiliary is None and name != "cost":
        raise SettingError(f"the table {name} needs an auxiliary.", "Name one with {auxiliary}.")


TABLES: Registry[Callable[[TableContext], Result]] = Registry("table of the paper", "partswap.analysis.paper")
