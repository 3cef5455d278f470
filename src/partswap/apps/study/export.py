"""Answers with what they were about, one row each: for analysis, CSV and Parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from partswap.apps.study.database import Database
from partswap.apps.study.folder import Study
from partswap.apps.study.steps import steps_of

COLUMNS = pa.schema(
    [
        ("participant", pa.int64()), ("name", pa.string()), ("simulated", pa.bool_()), ("finished", pa.bool_()),
        ("step", pa.int32()), ("phase", pa.string()), ("block", pa.int32()), ("item", pa.int32()),
        ("pair", pa.int32()), ("class_a", pa.string()), ("class_b", pa.string()), ("method", pa.string()),
        ("setup", pa.string()), ("image", pa.string()), ("choice", pa.string()), ("truth", pa.string()),
        ("right", pa.bool_()), ("client_ms", pa.float64()), ("server_ms", pa.float64()), ("answered", pa.float64()),
    ]
)  # fmt: skip


def answers_table(study: Study, database: Database) -> pa.Table:
    """Return all answers; `right` is empty where nothing is right or wrong."""
    people = {row["id"]: row for row in database.everyone()}
    steps = {row["slot"]: steps_of(study, row["slot"]) for row in people.values()}
    rows: list[dict[str, Any]] = []
    for answer in database.all_answers():
        person = people.get(answer["participant"])
        if person is None:
            continue  # came after the people were read
        step = steps[person["slot"]][answer["step"]]
        about: dict[str, Any] = {}
        if step.block is not None:
            block = study.slots[person["slot"]][step.block]
            lesson, (a, b) = study.lessons[block.lesson], study.classes_of(block)
            about = {"pair": lesson.pair, "class_a": a, "class_b": b, "method": lesson.method, "setup": lesson.setup}
        rows.append(
            {
                "participant": person["id"],
                "name": person["name"],
                "simulated": bool(person["simulated"]),
                "finished": person["finished"] is not None,
                "step": step.number,
                "phase": step.phase,
                "block": step.block,
                "item": step.item,
                "image": step.shown[0].image if len(step.shown) == 1 else None,
                "choice": answer["choice"],
                "truth": step.truth,
                "right": None if step.truth is None else answer["choice"] == step.truth,
                "client_ms": answer["client_ms"],
                "server_ms": answer["server_ms"],
                "answered": answer["created"],
                **about,
            }
        )
    return pa.Table.from_pylist(rows, COLUMNS)
