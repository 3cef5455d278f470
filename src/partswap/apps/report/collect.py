"""From the folders of runs to a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from partswap.analysis.words import RunWords
from partswap.apps.report.model import ModelMistakes, PictureNumbers, ReportData, ReportedMethod
from partswap.data.base import Dataset
from partswap.data.geometry import on_canvas
from partswap.data.on_grid import CellFacts, cell_facts
from partswap.drawing.html import used_distractors
from partswap.errors import PartswapError, SettingError
from partswap.grid import GridShape
from partswap.metrics import Evidence, Score, score_all
from partswap.results.counterfactual import Counterfactual
from partswap.runs.context import open_run_context
from partswap.runs.folder import Run, read_run
from partswap.runs.tasks import AnnotationCache, Task
from partswap.search import METHODS
from partswap.utils.estimates import RESAMPLES
from partswap.utils.files import read_json
from partswap.utils.progress import Track, no_progress, step, tracked
from partswap.words.writer import open_words_writer

Explained = dict[int, tuple[Task, Counterfactual]]
#: Which class counts as the nearest, by how the run chose it.
NEAREST = {
    "confusion": "the one it is most often taken for or, if it never is, the one with the highest mean probability",
    "attributes": "the one with the most similar attributes",
}
NOTHING = CellFacts(None, None, None)


class AnnotationReader(AnnotationCache):
    """Reads the annotations of images; images in `wanted` become pictures of the report at the same time."""

    def __init__(self, report: ReportData, run: Run, data: Dataset) -> None:
        super().__init__(data, run.open_preprocess(), GridShape(*run.record["grid"]))
        self.thumbnails = report.thumbnails
        self.kind = run.record["fingerprints"]["data"], self.preprocess.key()
        self.wanted: set[int] = set()

    def __getitem__(self, index: int) -> CellFacts:
        new = index in self.wanted and self.thumbnails.find((*self.kind, index)) is None
        if new or index not in self._known:
            sample = on_canvas(self.data[index], self.preprocess)
            self._known[index] = cell_facts(sample, self.grid)
            if index in self.wanted:
                self.thumbnails.add((*self.kind, index), sample.image)
        return self._known[index]

    def picture(self, index: int) -> int:
        """Return the number of an image's picture."""
        self.wanted.add(index)
        self[index]
        number = self.thumbnails.find((*self.kind, index))
        assert number is not None
        return number


def collect_runs(
    folders: Sequence[str | Path], *, title: str = "", words: str | Path | None = None, track: Track = no_progress
) -> ReportData:
    """Return a report of runs, with the explanations of the same image side by side.

    Parameters
    ----------
    folders : sequence of path
        Folders that ``partswap run`` wrote, finished or not. A run without any explanation is an error.
    title : str
        Of the page; by default it names data and model.
    words : path, optional
        The folder that ``partswap train words`` wrote for the classifier: explanations are put into words, too.
    track : Track
        Shows progress.
    """
    if not folders:
        raise SettingError("there is no run to report on.", "Give at least one folder that partswap run wrote.")
    paths = [Path(folder) for folder in folders]
    if twice := [str(path) for path, count in Counter(p.resolve() for p in paths).items() if count > 1]:
        raise SettingError(f"{twice[0]} is given twice.", "Name every run once.")
    runs = [read_run(path) for path in paths]
    explanations = [_explanations(run) for run in runs]
    labels = run_labels(paths)
    titles = source_titles(runs, explanations, labels)
    report = ReportData(title or _title(runs))
    models = _add_models(report, runs, labels)
    opened: dict[str, Dataset] = {}
    readers: dict[Hashable, AnnotationReader] = {}
    for number, (run, methods) in enumerate(zip(runs, explanations, strict=True)):
        report.notices += _unfinished(run, methods)
        report.notices += [text for text in run.record.get("doubts", ()) if text not in report.notices]
        fingerprint = run.record["fingerprints"]["data"]
        if fingerprint not in opened:
            with step(track, f"opening the data set of {run.folder}"):
                opened[fingerprint] = run.open_data()
        reader = AnnotationReader(report, run, opened[fingerprint])
        # Runs of the same images and grid read them once.
        reader = readers.setdefault((*reader.kind, reader.grid), reader)
        scores = _scores(run, methods, reader, track)
        describer = None if words is None else _describer(run, reader.data, words, track)
        with track(f"pictures of {labels[number]}", sum(map(len, methods.values()))) as advance:
            for method, explained in methods.items():
                label = labels[number] if len(runs) > 1 else ""
                report.sources.append(
                    ReportedMethod(titles[number, method], label, method, reader.grid, scores[method], models[number])
                )
                for task, cf in explained.values():
                    if describer is not None:
                        cf = replace(cf, words=describer.words(task, cf))
                    _add(report, fingerprint, reader, task, cf)
                    advance(1)
    report.note = _note(runs, report)
    return report


def _add_models(report: ReportData, runs: Sequence[Run], labels: Sequence[str]) -> list[int]:
    """Add what each model takes for what and return the place of each run's; runs with the same logits share one."""
    prints = [run.record["fingerprints"] for run in runs]
    keys: list[Hashable] = [(each["data"], each.get("logits", number)) for number, each in enumerate(prints)]
    models = [_model_name(run) for run in runs]
    distinct = list(dict.fromkeys(keys))
    for key in distinct:
        numbers = [number for number, each in enumerate(keys) if each == key]
        first = numbers[0]
        alone = models.count(models[first]) == len(numbers)
        title = models[first] if alone else f"{models[first]} ({labels[first]})"
        report.mistakes.append(
            ModelMistakes(
                title if len(distinct) > 1 else "",
                next((runs[n].confusion for n in numbers if runs[n].confusion is not None), None),
                f"{runs[first].folder.name} does not say which mistakes the model makes, because an earlier version of "
                "partswap made it. The same partswap run again adds them.",
            )
        )
    return [distinct.index(key) for key in keys]


def _explanations(run: Run) -> dict[str, Explained]:
    """Return the explanations of a run by method, without methods that have none yet."""
    explanations = {method: run.explained(method) for method in run.methods}
    if not any(explanations.values()):
        raise PartswapError(
            f"{run.folder} holds no explanation yet (0 of {run.record['tasks'] * len(run.methods)}).",
            "Run the command that began it again: it goes on where it was.",
        )
    return {method: explained for method, explained in explanations.items() if explained}


def _describer(run: Run, data: Dataset, words: str | Path, track: Track) -> RunWords:
    """Return what puts the explanations of a run into words; it uses the cached features of the run."""
    context = open_run_context(run.config.with_(auxiliary=None), track)
    return RunWords(replace(context, data=data, layer=run.record["layer"]), open_words_writer(words))


def _unfinished(run: Run, explanations: Mapping[str, Explained]) -> list[str]:
    tasks = run.record["tasks"]
    counts = {method: len(explanations.get(method, ())) for method in run.methods}
    missing = [f"{method} has {count} of {tasks}" for method, count in counts.items() if count < tasks]
    if not missing:
        return []
    return [f"{run.folder.name} is unfinished: {', '.join(missing)} explanations. Numbers will change when it is done."]


def _add(report: ReportData, fingerprint: str, reader: AnnotationReader, task: Task, cf: Counterfactual) -> None:
    data, used = reader.data, set(used_distractors(cf))
    distractors = task.distractors[: cf.distractors]
    pictures = PictureNumbers(
        reader.picture(task.query),
        [reader.picture(k) if place in used else None for place, k in enumerate(distractors)],
    )
    # Only distractors that gave a cell are readers at: the others may be thousands of files.
    facts = [reader[k] if place in used else NOTHING for place, k in enumerate(distractors)]
    label = data.label(task.query)
    differing = data.differing_parts(cf.query_class if label == task.target else label, task.target)
    case = report.case((fingerprint, task.query), data.image_name(task.query), str(data.classes[label]))
    report.add(
        len(report.sources) - 1,
        case,
        cf,
        Evidence(reader[task.query], facts, differing),
        pictures,
        mistake=label == task.target,
    )


def _scores(
    run: Run, explanations: Mapping[str, Explained], reader: AnnotationReader, track: Track
) -> dict[str, dict[str, Score]]:
    """Return the metrics of a run by method: those it wrote, or of the explanations that an unfinished run has."""
    path = run.folder / "metrics.json"
    if path.exists() and run.complete:
        stored = read_json(path)
        return {m: {name: _score(values) for name, values in stored[m].items()} for m in explanations}
    scores = {}
    for method, explained in explanations.items():
        for task, cf in explained.values():
            reader.wanted |= {task.query, *(task.distractors[k] for k in used_distractors(cf))}
        pairs = tracked(explained.values(), f"metrics of {method}", track)
        rows = [(cf, reader.evidence(task, cf.query_class)) for task, cf in pairs]
        scores[method] = score_all(rows, resamples=RESAMPLES)
    return scores


def _score(values: Mapping[str, Any]) -> Score:
    bounds = {name: tuple(values[name]) if values.get(name) else None for name in ("single_interval", "all_interval")}
    return Score(values["single"], values["all"], values["count"], bounds["single_interval"], bounds["all_interval"])


def run_labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of paths that tell runs apart.

    Examples
    --------
    >>> run_labels([Path("out/vgg/run"), Path("out/resnet/run")])
    ['vgg/run', 'resnet/run']
    """
    parts = [path.absolute().parts for path in paths]
    length = 1
    while len({p[-length:] for p in parts}) < len(parts) and length < max(map(len, parts)):
        length += 1
    return ["/".join(p[-length:]) for p in parts]


def source_titles(
    runs: Sequence[Run], explanations: Sequence[Mapping[str, Explained]], labels: Sequence[str]
) -> dict[tuple[int, str], str]:
    """Return a title for every method of every run: the run is named only where it is needed."""
    titles = {(n, m): METHODS.get(m).title for n, methods in enumerate(explanations) for m in methods}
    counts = Counter(titles.values())
    return {key: title if counts[title] == 1 else f"{title} ({labels[key[0]]})" for key, title in titles.items()}


def _title(runs: Sequence[Run]) -> str:
    models = list(dict.fromkeys(map(_model_name, runs)))
    data = list(dict.fromkeys(str(run.record["settings"]["data"]) for run in runs))
    return f"{' and '.join(models)} on {' and '.join(data)}"


def _model_name(run: Run) -> str:
    return Path(str(run.record["settings"]["model"])).name


def _note(runs: Sequence[Run], report: ReportData) -> str:
    """Return sentences on which images are explained, and towards which classes."""
    right, wrong = (
        len({e["case"] for e in report.explanations if bool(e.get("mistake")) == mistake}) for mistake in (False, True)
    )
    ways = dict.fromkeys(NEAREST[run.record["settings"].get("selection", "confusion")] for run in runs)
    sentences = []
    if right:
        nearest = f"each towards the nearest class of its own: {'; or '.join(ways)}"
        sentences.append(f"{right:,} images that the model gets right, {nearest}.")
    if wrong:
        sentences.append(f"{wrong:,} images that the model gets wrong, each towards its true class.")
    return " ".join(sentences)
