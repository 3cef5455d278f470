"""``partswap run``: explain a whole split with several methods, into a folder that survives being killed.

What is explained, from which images and in which order is planned first and is the same every time. The plan is divided
into shards; each becomes one file, whole or absent. Running the same command again makes the missing ones.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from partswap.data.base import Dataset, digest
from partswap.data.pairs import nearest_by_attributes
from partswap.errors import SettingError
from partswap.explainer.target import few_right
from partswap.inputs.preprocess import Preprocess
from partswap.metrics import METRICS, Score, score_all
from partswap.models.auxiliaries import Auxiliary
from partswap.models.fingerprint import model_fingerprint
from partswap.models.precision import check_device, fast_precision
from partswap.models.preprocessing import assumption
from partswap.runs import figures
from partswap.runs.config import RunConfig
from partswap.runs.confusion import CONFUSION, Confusion
from partswap.runs.context import RunContext, open_run_context
from partswap.runs.folder import Run, check_place, exclusive_lock, open_or_create, read_run, refuse_others, versions
from partswap.runs.payload import Shard, WorkerPayload
from partswap.runs.tasks import Tasks, plan_tasks
from partswap.runs.workers import Found, explain_here
from partswap.search import Method
from partswap.search.clusters import fit_centroids
from partswap.search.methods.base import SearchMethod
from partswap.search.methods.hard import Hard
from partswap.search.semantic import resolve_tau
from partswap.utils.estimates import RESAMPLES
from partswap.utils.files import check_writable, read_json, write_json
from partswap.utils.progress import Advance, Track, no_progress, step, tracked

__all__ = ["Run", "plan_run", "read_run", "run"]


def run(config: RunConfig, *, bench: RunContext | None = None, track: Track = no_progress) -> Run:
    """Explain what a configuration says, or what is missing of it, and return the finished run.

    Parameters
    ----------
    config : RunConfig
        Data, classifier, auxiliary, methods, where.
    bench : RunContext, optional
        Data, classifier and auxiliary, if they have been opened already (see `open_run_context`).
    track : Track
        Shows progress; see `partswap.utils.progress`.
    """
    if config.precision == "auto":
        config = config.with_(precision=fast_precision())
    if config.device == "auto" or config.on == "local":  # a cluster may have what this machine lacks
        config = config.with_(device=check_device(config.device))
    config = config.anchored()
    check_place(config.out)
    check_writable(config.out, folder=True)
    if config.on == "ray":
        from partswap.runs.ray import import_ray

        import_ray()
    _refuse_inside(config)
    with exclusive_lock(config.out):
        if (config.out / "run.json").exists():  # before minutes of features are computed
            refuse_others(read_run(config.out), {"settings": config.record(), "versions": versions()})
        if bench is None:
            for method in config.build_methods().values():
                method.check_auxiliary(config.auxiliary is not None)
            bench = open_run_context(config, track)
        methods = config.build_methods()
        tasks, skipped = plan_run(config, bench)
        current = open_or_create(config.out, _record(config, bench, methods, tasks, skipped))
        _store_confusion(current, bench)
        missing = current.missing()
        if missing:
            # Metrics and figures are made again when there are new explanations.
            (config.out / "metrics.json").unlink(missing_ok=True)
            with step(track, "preparing methods"):
                fitted = {name: _fitted(method, bench, config.seed) for name, method in methods.items()}
                payload = WorkerPayload.of(bench, tasks.tasks, fitted, config.device, pixel=config.pixel)
            _explain(current, missing, payload, config, bench.data, track)
        if not _measured(current):
            _finish(current, bench, track)
    return current


def _refuse_inside(config: RunConfig) -> None:
    """Raise an error if a new run would lie where every folder counts as a class."""
    if config.data != "folder" or config.path is None or (config.out / "run.json").exists():
        return
    if config.path.resolve() in config.out.resolve().parents:
        raise SettingError(
            f"{config.out} lies in the folder of the images, {config.path}, where it would count as a class.",
            "Choose a folder outside ({out}).",
        )


def plan_run(config: RunConfig, bench: RunContext) -> tuple[Tasks, dict[str, Any]]:
    """Return what to explain, and what is left out and why."""
    targets = None if config.selection == "confusion" else _by_attributes(bench.data)
    logits, labels = bench.encodings.logits, bench.data.labels()
    every = plan_tasks(
        logits, labels, distractors=config.distractors, seed=config.seed, targets=targets, only=config.only
    )
    tasks = every.first(config.queries, seed=config.seed)
    wrong = every.misclassified if config.only == "right" else 0
    right = len(bench.data) - every.misclassified if config.only == "wrong" else 0
    return tasks, {
        "unreadable_images": len(bench.data.skipped),
        "misclassified_queries": wrong,
        "correct_queries": right,
        "queries_without_distractors": len(bench.data) - wrong - right - len(every),
        "classes_without_distractors": [bench.data.classes[c] for c in every.without_distractors],
        "not_drawn": len(every) - len(tasks),
    }


def _by_attributes(data: Dataset) -> Mapping[int, int]:
    attributes = data.attributes()
    if attributes is None:
        raise SettingError(
            f"the data set {type(data).__name__} has no attributes to choose classes by.", "Use selection: confusion."
        )
    return nearest_by_attributes(attributes)


def _method_record(method: Method, auxiliary: Auxiliary | None) -> dict[str, Any]:
    """Return a method's settings, with the temperature that it takes of the auxiliary."""
    record = {**method.record(), "memory_mb": method.memory_mb}
    if isinstance(method, SearchMethod) and method.takes("tau") and auxiliary is not None:
        record["tau"] = resolve_tau(method, auxiliary.tau)
    return record


def _record(
    config: RunConfig, bench: RunContext, methods: Mapping[str, Method], tasks: Tasks, skipped: Mapping[str, Any]
) -> dict[str, Any]:
    auxiliary = bench.explainer.auxiliary
    logits = bench.encodings.logits.numpy()
    doubts = _doubts(bench.classifier.preprocess, logits, bench.data.labels())
    if bench.encodings.aux is not None:
        sample = range(0, len(bench.data), -(-len(bench.data) // 100))
        bench.explainer.note_familiarity(bench.encodings.aux[list(sample)])
    # A mistake is explained towards the true class, everything else away from it.
    mistakes = sum(bench.data.label(task.query) == task.target for task in tasks.tasks)
    return {
        "settings": config.record(),
        # What relative paths among the options are relative to.
        "cwd": str(Path.cwd()),
        # With the defaults of today: another version may have others.
        "methods": {name: _method_record(method, auxiliary) for name, method in methods.items()},
        "versions": versions(),
        "seeds": {"distractors and queries": config.seed},
        "fingerprints": {
            "data": bench.data.fingerprint(),
            "model": model_fingerprint(bench.classifier.model),
            "auxiliary": model_fingerprint(auxiliary.model) if auxiliary else None,
            # Features that were computed anew may differ in their last bits, and explanations with them.
            "logits": digest(logits.shape, logits.tobytes()),
            "plan": digest(tasks.tasks),
        },
        "images": len(bench.data),
        "tasks": len(tasks),
        "explained": {"right": len(tasks) - mistakes, "wrong": mistakes},
        "skipped": dict(skipped),
        "classes": [str(name) for name in bench.data.classes],
        "layer": bench.explainer.cut.layer,
        "auxiliary": auxiliary.name if auxiliary else None,
        "notes": list(dict.fromkeys([*(str(note) for note in bench.explainer.notes), *doubts])),
        **({"doubts": doubts} if doubts else {}),
        "grid": list(bench.explainer.cut.grid),
        "preprocess": bench.classifier.preprocess.record(),
    }


def _doubts(preprocess: Preprocess, logits: NDArray[Any], labels: NDArray[Any]) -> list[str]:
    """Return what may be wrong with how images are prepared: it is assumed, or hardly any is predicted as its class."""
    right = int((logits.argmax(1) == labels).sum())
    return [text for text in (assumption(preprocess), few_right(right, len(labels))) if text]


def _store_confusion(run: Run, bench: RunContext) -> None:
    """Write what the model takes for what, also into the folder of a run that was made before this was stored."""
    path = run.folder / CONFUSION
    if not path.exists():
        confusion = Confusion.of(bench.encodings.logits, bench.data.labels(), bench.data.classes)
        write_json(path, confusion.record(), place="out", resumes=True)


def _explain(
    run: Run, missing: list[Shard], payload: WorkerPayload, config: RunConfig, data: Dataset, track: Track
) -> None:
    every = sum(len(shard) for shard in run.shards())
    done = every - sum(len(shard) for shard in missing)
    with closing(_execute(payload, missing, config)) as results:
        sizes: dict[str, Any] = {"total": every, "done": done, "size": lambda result: len(result[0])}
        for shard, counterfactuals in tracked(results, "explanations", track, **sizes):
            tasks = payload.tasks[shard.start : shard.stop]
            run.write(shard, tasks, counterfactuals, [data.image_name(task.query) for task in tasks])


def _fitted(method: Method, bench: RunContext, seed: int) -> Method:
    """Return a method with what it learns from the whole split: the clusters of a hard constraint."""
    aux = bench.encodings.aux
    if isinstance(method, Hard) and method.by == "clusters" and method.centroids is None and aux is not None:
        return replace(method, centroids=fit_centroids(aux, method.clusters, seed=seed))
    return method


def _execute(payload: WorkerPayload, shards: list[Shard], config: RunConfig) -> Generator[Found]:
    if config.on == "ray":
        from partswap.runs.ray import explain_on_ray

        yield from explain_on_ray(payload, shards, address=config.address, workers=config.workers)
    else:
        yield from explain_here(payload, shards, config.workers)


def _measured(run: Run) -> bool:
    """Tell whether every metric there is has been computed."""
    path = run.folder / "metrics.json"
    return path.exists() and all(set(METRICS.names()) <= set(of_method) for of_method in read_json(path).values())


def _metrics_bar(run: Run, track: Track) -> AbstractContextManager[Advance]:
    # Intervals and figures of a method take as long as many explanations: they count, too.
    return track("metrics and figures", len(run.methods) * (run.record["tasks"] + 2))


def _finish(run: Run, bench: RunContext, track: Track) -> None:
    """Write figures, then metrics, which say that everything is there."""
    scores: dict[str, dict[str, Score]] = {}
    folder = run.folder / "figures"
    with _metrics_bar(run, track) as advance:
        for method in run.methods:
            rows, explained = [], list(run.explained(method).values())
            for task, cf in explained:
                rows.append((cf, bench.facts.evidence(task, cf.query_class)))
                advance(1)
            scores[method] = score_all(rows, resamples=RESAMPLES)
            advance(1)
            figures.draw_examples(explained, bench, folder / f"{method}.png")
            advance(1)
        figures.draw_metrics(scores, folder / "metrics.png")
        content = {m: {name: asdict(score) for name, score in of_method.items()} for m, of_method in scores.items()}
        write_json(run.folder / "metrics.json", content, place="out", resumes=True)
