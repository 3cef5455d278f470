"""Where the paper's tables are made: every row is a run, kept on disk, so that tables share rows and survive a kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from partswap.data.base import digest
from partswap.errors import SettingError
from partswap.metrics import METRICS, Score
from partswap.models.auxiliaries import AuxiliaryChoice
from partswap.models.fingerprint import model_fingerprint
from partswap.progress import Track, no_progress
from partswap.registry import Registry
from partswap.runs.config import RunConfig
from partswap.runs.run import Run, plan_run, run
from partswap.runs.workbench import Workbench, open_workbench
from partswap.search import METHODS as SEARCH
from partswap.store import read_json
from partswap.studies.tables import Cell, Measured, ResultTable

#: The three methods most tables compare: name, title, settings.
METHODS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("goyal", "Goyal et al.", {}),
    ("paper", "Vandenhende et al.", {"keep": 0.1}),
    ("partswap", "partswap", {}),
)


@dataclass(frozen=True)
class Result:
    """A table, with figures where the paper has them.

    Attributes
    ----------
    table : ResultTable
        The numbers.
    figures : Mapping[str, Figure]
        By name.
    """

    table: ResultTable
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the table as Markdown and CSV and each figure as PNG and SVG; returns the paths."""
        paths = self.table.save(folder, name)
        for title, figure in self.figures.items():
            for suffix in ("png", "svg"):
                path = folder / f"{title}.{suffix}"
                figure.savefig(path, dpi=140)
                paths.append(path)
        return paths


@dataclass(frozen=True)
class Lab:
    """Makes the rows of tables.

    Attributes
    ----------
    config : RunConfig
        Data, classifier, auxiliary and how many images; each row changes some of it.
    runs : Path
        Folder of all runs; a row that is there already is read.
    auxiliaries : sequence of AuxiliaryChoice
        Rows of the auxiliary table.
    """

    config: RunConfig
    runs: Path
    auxiliaries: Sequence[AuxiliaryChoice] = ()
    track: Track = field(default=no_progress, repr=False)

    @cached_property
    def bench(self) -> Workbench:
        """Data, classifier and auxiliary."""
        return open_workbench(self.config, self.track)

    @property
    def family(self) -> str:
        """What the paper would call the classifier: ``"vgg"``, ``"resnet"``, or its own name."""
        name = self.bench.classifier.architecture.lower()
        return next((known for known in ("vgg", "resnet") if known in name), name)

    @property
    def comparable(self) -> bool:
        """Whether the paper's own numbers for VGG-16 on CUB may stand beside ours."""
        return (self.config.data, self.family) == ("cub", "vgg")

    def run(self, method: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> Run:
        """Explain the split with one method, or read what was explained."""
        config = self.config.with_(methods=(method,), settings={method: dict(settings or {})}, **changes)
        if not SEARCH.get(method).semantic:  # one row for all auxiliaries
            config = config.with_(auxiliary=None)
        if "layer" in changes:
            bench = open_workbench(config, self.track)
        elif config.auxiliary != self.config.auxiliary:
            choice = None if config.auxiliary is None else AuxiliaryChoice.parse(config.auxiliary)
            bench = self.bench.with_auxiliary(choice)
        else:
            bench = self.bench
        # Where networks lie does not matter, what is in them does.
        networks = [bench.classifier.model, *([a.model] if (a := bench.explainer.auxiliary) else [])]
        key = digest(config.deciding(), [model_fingerprint(network) for network in networks])
        return run(config.with_(out=self.runs / f"{method}-{key}"), bench=bench, track=self.track)

    def scores(self, method: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Score]:
        """Return the metrics of a run."""
        made = self.run(method, settings, **changes)
        found = read_json(made.folder / "metrics.json")[method]
        return {name: _score(content) for name, content in found.items()}

    def note(self, *, distractors: bool = True, cut: bool = True) -> str:
        """Return what every table says about its bench."""
        made = self.bench
        tasks, skipped = plan_run(self.config, made)
        eligible = len(tasks) + skipped["not_drawn"]
        drawn = f"{len(tasks)} images drawn from the {eligible}" if skipped["not_drawn"] else f"All {eligible}"
        auxiliary = f", auxiliary {replace(made.auxiliary, weights=None)}" if made.auxiliary else ""
        where = f" cut at {made.explainer.cut.layer}" if cut else ""
        many = f", up to {self.config.distractors} distractors" if distractors else ""
        return (
            f"{drawn} eligible images of {self.config.data} {self.config.split} ({len(made.data)} in all, "
            f"{len(made.data.classes)} classes); "
            f"{made.classifier.architecture}{where}{auxiliary}{many}. "
            "± is half of the 95 % bootstrap interval."
        )


def _score(content: Mapping[str, Any]) -> Score:
    """Return a score as it was before it was JSON."""
    single, every = (content.get(f"{which}_interval") for which in ("single", "all"))
    return Score(
        content["single"],
        content["all"],
        content["count"],
        tuple(single) if single else None,
        tuple(every) if every else None,
    )


def cell(scores: Mapping[str, Score], metric: str, which: str = "all") -> Cell:
    """Return a metric as a table's cell: percentages where it is one, with its interval where there is one."""
    score = scores[metric]
    value = getattr(score, which)
    if value is None:
        return None
    percent = METRICS.get(metric)().percent
    factor = 100.0 if percent else 1.0
    bounds = getattr(score, f"{which}_interval")
    if bounds is None:
        return factor * float(value)
    return Measured(factor * value, factor * bounds[0], factor * bounds[1], 1 if percent else None)


def make_table(name: str, lab: Lab) -> Result:
    """Make a table by name."""
    table = PAPER.get(name)
    if lab.config.auxiliary is None and name != "cost":
        raise SettingError(f"the table {name} is about a semantic term.", "Pass an auxiliary: --auxiliary NAME.")
    return table(lab)


PaperTable = Callable[[Lab], Result]
PAPER: Registry[PaperTable] = Registry("table of the paper", "partswap.studies.paper")
