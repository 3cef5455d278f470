"""What the tests of studies share: databases, and a browser."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partswap.apps.study.server import StudyState, open_site
from partswap.apps.study.serving import served
from study_files import Postgres, make_study, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL server."""
    if sys.platform == "win32":
        pytest.skip("PostgreSQL is started by hand on Windows")
    try:
        with postgres_server() as server:
            yield server
    except FileNotFoundError as error:
        pytest.skip(f"no PostgreSQL on this machine ({error})")


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Make a new database of either kind, and return its address."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / 'answers.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new


@pytest.fixture
def site(tmp_path: Path) -> StudyState:
    make_study(tmp_path, side=224, learning=2, questions=2, attention=1, least_seconds=0.3)
    return open_site(tmp_path, open_places=4)


@pytest.fixture
def base(site: StudyState) -> Iterator[str]:
    with served(site) as address:
        yield address


@pytest.fixture
def errors() -> list[str]:
    return []
