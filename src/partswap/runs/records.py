"""Counterfactuals as Parquet: one row per edit, and back again, exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from partswap.errors import FileFormatError
from partswap.grid import GridShape
from partswap.results.counterfactual import Counterfactual, Edit, PixelCheck, Step
from partswap.results.provenance import Provenance
from partswap.runs.tasks import Task
from partswap.utils.files import write_bytes

SCHEMA_VERSION = 1
#: What is the same in all rows of an explanation, then what belongs to the edit.
EDITS = pa.schema(
    [
        pa.field("task", pa.int32(), nullable=False),
        pa.field("query", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("query_class", pa.int32(), nullable=False),
        pa.field("target", pa.int32(), nullable=False),
        pa.field("distractors", pa.list_(pa.int32()), nullable=False),
        pa.field("before", pa.float64(), nullable=False),
        pa.field("edits", pa.int32(), nullable=False),
        pa.field("flipped", pa.bool_(), nullable=False),
        pa.field("evaluations", pa.int64(), nullable=False),
        pa.field("evaluator", pa.string()),
        # What a method tells of this explanation only, as JSON; null where it is like the first of the file.
        pa.field("extra", pa.string()),
        pa.field("step", pa.int32(), nullable=False),
        # An explanation without any edit has one row, step 0, in which these are null.
        pa.field("query_cell", pa.int32()),
        pa.field("distractor", pa.int32()),
        pa.field("distractor_cell", pa.int32()),
        pa.field("probability", pa.float64()),
        pa.field("predicted", pa.int32()),
        pa.field("objective", pa.float64()),
        # Probabilities of the class said before the edits; older files do not have them.
        pa.field("own_before", pa.float64()),
        pa.field("own", pa.float64()),
        # The pixel check, null where there was none; older files do not have it.
        pa.field("pixel_before", pa.float64()),
        pa.field("pixel_after", pa.float64()),
        pa.field("pixel_predicted", pa.int32()),
    ]
)
TIMINGS = pa.schema(
    [
        pa.field("task", pa.int32(), nullable=False),
        pa.field("query", pa.int32(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
    ]
)
_EDIT = ("query_cell", "distractor", "distractor_cell", "probability", "predicted", "objective", "own")
_PIXEL = ("pixel_before", "pixel_after", "pixel_predicted")
#: Keys of `Counterfactual.source` that columns hold; the others are usually the same for a whole method.
_IN_COLUMNS = ("evaluator", "query", "distractors", "distractor_indices", "class_names")


def edits_table(
    start: int, tasks: Sequence[Task], counterfactuals: Sequence[Counterfactual], names: Sequence[str]
) -> pa.Table:
    """Return one row per edit; `start` is the number of the first task, `names` are those of the query images."""
    rows: list[dict[str, Any]] = []
    shared = _settings_and_source(counterfactuals[0])
    for number, (task, cf, name) in enumerate(zip(tasks, counterfactuals, names, strict=True), start):
        donors = list(task.distractors[: cf.distractors])
        extra = {name: value for name, value in _settings_and_source(cf).items() if value != shared[name]}
        common = {
            "task": number, "query": task.query, "name": name, "query_class": cf.query_class, "target": cf.target,
            "distractors": donors, "edits": len(cf.edits), "flipped": cf.flipped,
            "evaluations": cf.evaluations, "evaluator": cf.source.evaluator,
            "before": cf.before.target_probability, "own_before": cf.before.original_class_probability,
            "extra": json.dumps(extra, sort_keys=True) if extra else None,
            **({} if (c := cf.pixel) is None else dict(zip(_PIXEL, (c.before, c.after, c.predicted), strict=True))),
        }  # fmt: skip
        for step, (edit, after) in enumerate(zip(cf.edits, cf.trace, strict=True), 1):
            own = (edit.query_cell, donors[edit.distractor_image], edit.image_cell)
            values = (
                *own,
                after.target_probability,
                after.predicted,
                after.objective,
                after.original_class_probability,
            )
            rows.append({**common, "step": step, **dict(zip(_EDIT, values, strict=True))})
        if not cf.edits:
            rows.append({**common, "step": 0, **dict.fromkeys(_EDIT)})
    about = {
        "version": SCHEMA_VERSION,
        "method": counterfactuals[0].method,
        "grid": list(counterfactuals[0].grid),
        **shared,
    }
    return pa.Table.from_pylist(rows, EDITS.with_metadata({"partswap": json.dumps(about, sort_keys=True)}))


def _settings_and_source(cf: Counterfactual) -> dict[str, dict[str, Any]]:
    """Return the settings and the source of a counterfactual, without what columns hold."""
    source = {name: value for name, value in cf.source.to_dict().items() if name not in _IN_COLUMNS}
    return {"settings": dict(cf.settings), "source": source}


def timings_table(start: int, tasks: Sequence[Task], counterfactuals: Sequence[Counterfactual]) -> pa.Table:
    """Return how long each search took: apart from the edits, which are the same every time."""
    rows = [
        {"task": number, "query": task.query, "seconds": cf.seconds}
        for number, (task, cf) in enumerate(zip(tasks, counterfactuals, strict=True), start)
    ]
    return pa.Table.from_pylist(rows, TIMINGS)


def counterfactuals_of(
    table: pa.Table, class_names: Sequence[str], timings: pa.Table | None = None
) -> dict[int, tuple[Task, Counterfactual]]:
    """Return the explanations that `edits_table` wrote, by number of the task; `timings` tells their seconds."""
    about = json.loads((table.schema.metadata or {}).get(b"partswap", b"{}"))
    if about.get("version") != SCHEMA_VERSION:
        raise FileFormatError(
            f"a table of edits has version {about.get('version')}, this partswap reads {SCHEMA_VERSION}.",
            "Use the partswap version that wrote it, or run again.",
        )
    by_task: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        by_task.setdefault(row["task"], []).append(row)
    seconds = {} if timings is None else dict(zip(*(timings[c].to_pylist() for c in ("task", "seconds")), strict=True))
    return {n: _explanation(rows, about, class_names, seconds.get(n, 0.0)) for n, rows in by_task.items()}


def _explanation(
    rows: list[dict[str, Any]], about: Mapping[str, Any], class_names: Sequence[str], seconds: float
) -> tuple[Task, Counterfactual]:
    first, grid = rows[0], GridShape(*about["grid"])
    rows = sorted((row for row in rows if row["step"]), key=lambda row: int(row["step"]))
    if [row["step"] for row in rows] != list(range(1, first["edits"] + 1)):
        raise FileFormatError(
            f"the explanation of {first['name']} has {len(rows)} of {first['edits']} edits.", "Run again."
        )
    distractors = list(first["distractors"])
    edits, trace = [], []
    for row in rows:
        image = distractors.index(row["distractor"])
        edits.append(Edit(row["query_cell"], image * grid.cells + row["distractor_cell"], image))
        trace.append(Step(row["probability"], row["predicted"], row["objective"], row.get("own")))
    origin = {**about, **json.loads(first["extra"] or "{}")}
    mentioned = {first["query_class"], first["target"], *(step.predicted for step in trace)}
    pixel = None
    if first.get("pixel_predicted") is not None:
        before, after, predicted = (first[name] for name in _PIXEL)
        pixel = PixelCheck(before, after, predicted, predicted == first["target"])
        mentioned.add(predicted)
    source = {
        **origin["source"],
        **({} if first["evaluator"] is None else {"evaluator": first["evaluator"]}),
        "query": str(first["query"]),
        "distractors": [str(index) for index in distractors],
        "distractor_indices": list(range(len(distractors))),
        "class_names": {str(k): class_names[k] for k in sorted(mentioned)},
    }
    cf = Counterfactual(
        query_class=first["query_class"], target=first["target"], grid=grid, distractors=len(distractors),
        edits=tuple(edits), trace=tuple(trace),
        before=Step(first["before"], first["query_class"], None, first.get("own_before")),
        flipped=first["flipped"], method=about["method"], settings=origin["settings"],
        source=Provenance.from_dict(source),
        evaluations=first["evaluations"], seconds=seconds, pixel=pixel,
    )  # fmt: skip
    return Task(first["query"], first["target"], tuple(distractors)), cf


def write_table(table: pa.Table, path: Path) -> None:
    """Write Parquet so that the file is whole or absent, whatever happens; the bytes depend on the table only."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=max(1, len(table)))
    # Written by Python, not by Arrow: a full disk is then an OSError with its number.
    write_bytes(path, sink.getvalue(), durable=True, place="out", resumes=True)


def read_table(path: Path) -> pa.Table:
    """Read Parquet; a damaged file raises a partswap error."""
    try:
        return pq.ParquetFile(path).read()  # not read_table, which would add the folder's method as a column
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(
            f"{path} cannot be read ({error}).", "Delete it and run again: it is made anew."
        ) from error
