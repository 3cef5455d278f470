"""A copy of a running study's answers: one SQLite file, whatever the database is, as of one moment."""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

from partswap.apps.study.database import Database, metadata
from partswap.errors import SettingError


def back_up(database: Database, out: Path) -> int:
    """Write the copy, whole or not at all; returns how many answers it holds. It can be served like the original."""
    if out.exists():
        raise SettingError(f"{out} is there already.", "Choose another name: a backup is never overwritten.")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")
    for leftover in temporary.parent.glob(f"{temporary.name}*"):
        leftover.unlink()
    copy = Database(f"sqlite:///{temporary.absolute()}", database.steps)
    try:
        copy.upgrade()
        with database.snapshot() as source, copy.engine.connect() as sink:
            for table in metadata.sorted_tables:
                rows = [dict(row) for row in source.execute(sa.select(table)).mappings()]
                if rows and table.name != "sessions":
                    sink.execute(table.insert(), rows)
                if table.name == "answers":
                    count = len(rows)
            sink.commit()
        with copy.engine.connect() as sink:  # one file, without a log beside it
            sink.exec_driver_sql("COMMIT")
            sink.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            sink.exec_driver_sql("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, out)
    return count
