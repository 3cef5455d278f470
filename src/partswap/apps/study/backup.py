"""A copy of a running study's answers: one SQLite file, whatever the database is, as of one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from partswap.apps.study.database import Database, DatabaseUnavailableError, metadata
from partswap.errors import SettingError, WriteError
from partswap.utils.files import writing


def back_up(database: Database, out: Path) -> int:
    """Write the copy, whole or not at all; returns how many answers it holds. It can be served like the original."""
    if out.exists():
        raise SettingError(f"{out} is there already.", "Choose another name: a backup is never overwritten.")
    with database.snapshot() as source:
        content = {
            table: [dict(row) for row in source.execute(sa.select(table)).mappings()]
            for table in metadata.sorted_tables
            if table.name != "sessions"
        }
    try:
        with writing(out, private=True, durable=True, place="out") as temporary:
            _write(content, temporary, database.steps)
    except (
        DatabaseUnavailableError,
        sa.exc.OperationalError,
    ) as error:  # SQLite says in its own words that a disk is full
        reason = getattr(error, "orig", None) or getattr(error.__cause__, "orig", error)
        fix = "Make room, or choose another place ({out})."
        raise WriteError(f"{out} cannot be written: {reason}.", fix) from error
    return next(len(rows) for table, rows in content.items() if table.name == "answers")


def _write(content: Mapping[sa.Table, Sequence[dict[str, Any]]], to: Path, steps: Sequence[int]) -> None:
    copy = Database(f"sqlite:///{to.absolute()}", steps)
    try:
        copy.upgrade()
        with copy.engine.connect() as sink:
            for table, rows in content.items():
                if rows:
                    sink.execute(table.insert(), rows)
            sink.commit()
        with copy.engine.connect() as sink:  # one file, without a log beside it
            sink.exec_driver_sql("COMMIT")
            sink.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            sink.exec_driver_sql("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()
