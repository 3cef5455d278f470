"""What a study keeps is for its owner only: answers, secret, and what people answered."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from partswap.apps.study.analyse import ExclusionRules, analyse, write_analysis
from partswap.apps.study.backup import back_up
from partswap.apps.study.export import COLUMNS
from partswap.apps.study.power import power_of
from partswap.apps.study.preview import write_preview
from partswap.apps.study.server import open_site
from partswap.cli.main import app
from partswap.errors import PartswapError
from study_files import make_study

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files have no modes on Windows")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Let everyone read what is written, as is usual."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Return what others can read or enter of a folder, and the folder itself."""
    return [str(path) for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077]


def of_others(folder: Path) -> list[str]:
    """Return what is open to others, but for pictures: they lie in a folder that nobody else can enter."""
    return [path for path in open_to_others(folder) if not path.endswith(".jpg")]


def test_a_study_and_its_answers_are_for_their_owner(tmp_path):
    folder = tmp_path / "study"
    study = make_study(folder, attention=1)
    write_preview(folder, study, power_of(4, 2, 4, 3, 3))
    site = open_site(folder)
    site.database.answer(site.database.add(), 0, "agree", None)
    assert {path.name for path in folder.glob("answers.db*")} == {"answers.db", "answers.db-wal", "answers.db-shm"}
    assert of_others(folder) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "study.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "answers.db").stat().st_mode) == 0o600
    back_up(site.database, tmp_path / "monday.db")
    assert stat.S_IMODE((tmp_path / "monday.db").stat().st_mode) == 0o600


def test_what_an_earlier_partswap_left_open_is_closed(tmp_path):
    make_study(tmp_path)
    with sqlite3.connect(tmp_path / "answers.db") as left:  # in use, so that SQLite's log stays
        left.execute("PRAGMA journal_mode = WAL")
        left.execute("CREATE TABLE other (x)")
        left.commit()
        for path in (tmp_path, *tmp_path.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        open_site(tmp_path)
        assert (tmp_path / "answers.db-wal").exists()
        assert of_others(tmp_path) == [str(tmp_path / "images")]
    left.close()


def test_an_analysis_is_for_its_owner(tmp_path):
    about = {"participant": 1, "finished": True, "simulated": False, "block": 0, "pair": 0, "setup": "random"}
    rows = [
        {**about, "method": "partswap", "phase": phase, "item": k, "right": True, "client_ms": 900.0}
        for phase in ("before", "learn", "test")
        for k in range(2)
    ]
    table = pa.Table.from_pylist(rows, COLUMNS)
    found = analyse(table, {"partswap": "partswap"}, ExclusionRules(knew=1.0))
    write_analysis(found, table, tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 4
    assert open_to_others(tmp_path / "out") == []


def test_simulated_answers_are_for_their_owner(tmp_path):
    folder = tmp_path / "study"
    make_study(folder, blocks=1)
    result = CliRunner().invoke(app, ["study", "serve", str(folder), "--simulate", "4"])
    assert result.exit_code == 0, result.output
    assert (folder / "simulated" / "answers.csv").exists()
    assert of_others(folder) == []


def test_a_database_that_cannot_be_made_is_named(tmp_path):
    make_study(tmp_path)
    with pytest.raises(PartswapError, match=r"unable to open database file"):
        open_site(tmp_path, f"sqlite:///{tmp_path}/nowhere/answers.db")
