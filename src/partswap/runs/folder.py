"""The folder of a run: what is in it, what is missing, and which settings it was begun with."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from partswap._version import __version__
from partswap.data.base import DATASETS, Dataset, open_dataset
from partswap.errors import FileFormatError, PartswapError, SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.models.open import open_classifier
from partswap.results.counterfactual import Counterfactual
from partswap.runs.config import RunConfig
from partswap.runs.confusion import CONFUSION, Confusion, read_confusion
from partswap.runs.payload import Shard
from partswap.runs.records import counterfactuals_of, edits_table, read_table, timings_table, write_table
from partswap.runs.tasks import Task
from partswap.utils.files import (
    TEMPORARY,
    ensure_own_folder,
    locked,
    make_folder,
    read_json,
    remove_leftovers,
    write_json,
)


@dataclass(frozen=True)
class Run:
    """A run on disk, finished or not; `record` is its ``run.json``."""

    folder: Path
    record: Mapping[str, Any] = field(repr=False, hash=False)

    @cached_property
    def config(self) -> RunConfig:
        """The settings it was made with; relative paths (of earlier versions) are absolute where they are found."""
        return RunConfig.from_record(self.record["settings"]).anchored(*self._began_in())

    def _began_in(self) -> list[Path]:
        """Return where the command was run, if that is known: earlier versions only told the path to this folder."""
        if "cwd" in self.record:
            return [Path(self.record["cwd"])]
        here, out = self.folder.absolute(), Path(self.record["settings"]["out"]).parts
        return [here.parents[len(out) - 1]] if out and here.parts[-len(out) :] == out else []

    def open_data(self) -> Dataset:
        """Return the images it explains, after checking that they are those; it does not matter from where."""
        config = self.config
        if config.path is not None and not config.path.exists():
            raise SettingError(
                f"the images that {self.folder} explains are not at {config.path}.",
                "Put them there again, or correct the path in its run.json (settings, path)."
                if config.path.is_absolute()
                else "Go to the folder where the run was made, or make the path in its run.json (settings, path) "
                "absolute.",
            )
        kinds = inspect.signature(DATASETS.get(config.data)).parameters
        options = {
            # A file among the options is named as it was when the run began.
            name: next((str(file) for folder in self._began_in() if (file := folder / str(value)).is_file()), value)
            if name in kinds and "Path" in str(kinds[name].annotation)
            else value
            for name, value in config.options.items()
        }
        data = open_dataset(config.data, config.path, config.split, **options)
        if data.fingerprint() != self.record["fingerprints"]["data"]:
            raise SettingError(
                f"the images in {config.path or config.data} are not those that {self.folder} explains.",
                "Restore them, or run again.",
            )
        return data

    @property
    def methods(self) -> list[str]:
        """The methods it explains with."""
        return list(self.record["settings"]["methods"])

    def shards(self) -> list[Shard]:
        """Return all units of work: each is one file."""
        size, count = self.record["settings"]["shard"], self.record["tasks"]
        ranges = [(start, min(start + size, count)) for start in range(0, count, size)]
        return [Shard(method, k, *bounds) for method in self.methods for k, bounds in enumerate(ranges)]

    def missing(self) -> list[Shard]:
        """Return what has not been explained yet."""
        return [shard for shard in self.shards() if not self.path(shard).exists()]

    @property
    def complete(self) -> bool:
        """Whether everything has been explained."""
        return not self.missing()

    def path(self, shard: Shard, what: str = "edits") -> Path:
        """Return the file of a shard, of its ``"edits"`` or ``"timings"``."""
        return self.folder / what / f"method={shard.method}" / f"part-{shard.number:05d}.parquet"

    @cached_property
    def confusion(self) -> Confusion | None:
        """What the model takes for what on the whole split; None where an earlier version made the run."""
        return read_confusion(self.folder / CONFUSION)

    def explained(self, method: str) -> dict[int, tuple[Task, Counterfactual]]:
        """Return what a method found so far: tasks and counterfactuals, by number of the task."""
        if method not in self.methods:
            raise SettingError(f"{self.folder} has no method {method!r}.", f"It has: {', '.join(self.methods)}.")
        explanations: dict[int, tuple[Task, Counterfactual]] = {}
        for shard in self.shards():
            if shard.method != method or not self.path(shard).exists():
                continue
            times = self.path(shard, "timings")
            timings = read_table(times) if times.exists() else None
            part = counterfactuals_of(read_table(self.path(shard)), self.record["classes"], timings)
            if list(part) != list(range(shard.start, shard.stop)):
                raise FileFormatError(
                    f"{self.path(shard)} does not hold the tasks {shard.start} to {shard.stop - 1}.",
                    "Delete it and run again: it is made anew.",
                )
            explanations.update(part)
        return explanations

    def counterfactuals(self, method: str) -> list[Counterfactual]:
        """Return what a method found so far, in the order of the images."""
        return [cf for _, cf in self.explained(method).values()]

    def write(
        self, shard: Shard, tasks: Sequence[Task], counterfactuals: Sequence[Counterfactual], names: Sequence[str]
    ) -> None:
        """Add a shard; it counts as done when its edits are there, which are written last."""
        if [len(tasks), len(counterfactuals)] != [len(shard)] * 2:
            raise PartswapError(f"{len(counterfactuals)} explanations for {shard}.", "Give one per task.")
        write_table(timings_table(shard.start, tasks, counterfactuals), self.path(shard, "timings"))
        write_table(edits_table(shard.start, tasks, counterfactuals, names), self.path(shard))

    def open_preprocess(self) -> Preprocess:
        """Return how its images were prepared; where that is a function, the classifier is opened again."""
        record = self.record["preprocess"]
        if "function" not in record:
            return Preprocess.of_record(record)
        config = self.config
        preprocess = open_classifier(config.model, config.weights, config.classes, config.stated).preprocess
        if preprocess.key() != record["key"]:
            raise FileFormatError(
                f"the images of {self.folder} were prepared by {record['function']}, which gives others now.",
                "Run again, into another folder.",
            )
        return preprocess

    def tidy(self) -> None:
        """Remove what a killed process left half written."""
        remove_leftovers(self.folder)


def read_run(folder: str | Path) -> Run:
    """Read what ``partswap run`` wrote.

    Examples
    --------
    ``read_run("out/run").counterfactuals("paper")[0].edits``
    """
    folder = Path(folder)
    path = folder / "run.json"
    if not path.exists():
        raise PartswapError(f"{folder} holds no run.", "Give the folder that partswap run wrote ({out}).")
    record = read_json(path)
    needed = {"settings", "tasks", "classes", "fingerprints", "preprocess", "grid"}
    if not isinstance(record, dict) or not needed <= set(record):
        raise FileFormatError(f"{path} is not about a run.", "Give the folder that partswap run wrote ({out}).")
    return Run(folder, record)


def versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    modules = {"torch": "torch", "numpy": "numpy", "pyarrow": "pyarrow", "scikit-learn": "sklearn"}
    libraries = {name: str(import_module(module).__version__) for name, module in modules.items()}
    return {"partswap": __version__, **libraries, "python": platform.python_version()}


def open_or_create(folder: Path, record: Mapping[str, Any]) -> Run:
    """Return the run of a folder: a new one, or the one that was begun there with the same settings."""
    check_place(folder)
    if (folder / "run.json").exists():
        run = read_run(folder)
        refuse_others(run, record)
    else:
        write_json(folder / "run.json", record, place="out", resumes=True)
        run = read_run(folder)
    run.tidy()
    return run


def check_place(folder: Path) -> None:
    """Raise an error if a folder is neither a run, nor new, nor what a run left that was killed at its beginning."""
    if any(folder.glob("edits/*/*.parquet")) and not (folder / "run.json").exists():
        raise SettingError(
            f"{folder} holds edits but no run.json.", "Choose another folder ({out}), or empty this one."
        )
    ensure_own_folder(folder, "run", ["run.json"], [TEMPORARY])
    if (folder / "run.json").exists():
        read_run(folder)  # it is about a run


def refuse_others(run: Run, record: Mapping[str, Any]) -> None:
    """Raise an error that names what differs if a run was begun in another way."""
    then, now = (
        {**r, "settings": RunConfig.from_record(r["settings"]).identity_fields()} for r in (run.record, record)
    )
    differ = []
    titles = {"settings": "", "methods": "settings of ", "versions": "version of ", "fingerprints": "fingerprint of "}
    usual = {name: field.default for name, field in RunConfig.model_fields.items()}
    for part, title in titles.items():
        old, new = then.get(part, {}), now.get(part, {})  # what is not known yet is not compared
        if part == "settings":  # a field that came later is recorded only where it is not at its default
            old, new = ({name: each.get(name, usual[name]) for name in {**old, **new}} for each in (old, new))
        for name, value in new.items():
            if (part, name) != ("versions", "python") and old.get(name) != value:
                differ.append(f"{title}{name} ({old.get(name)} then, {value} now)")
    if "tasks" in now and then["tasks"] != now["tasks"]:
        differ.append(f"tasks ({then['tasks']} then, {now['tasks']} now)")
    if differ:
        raise SettingError(
            f"the run in {run.folder} was begun with other settings: {', '.join(differ)}.",
            "Use the same, or another folder.",
        )


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Let only one process at a time work in a folder."""
    make_folder(folder, place="out")
    with locked(folder, wait=False) as ours:
        if ours is False:
            raise PartswapError(
                f"another process is working in {folder}.", "Wait for it, or choose another folder ({out})."
            )
        yield
