"""A small explorer of drawn birds, opened once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from partswap.apps.explorer import server
from partswap.apps.explorer.examples import Example
from partswap.apps.explorer.server import ExplorerState, make_app
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext, open_run_context

# As `partswap explore` sets it, before anything is computed: memory is measured here.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
#: By number: a name is what a page elsewhere would come with.
BASE = "http://127.0.0.1"


@pytest.fixture(scope="session")
def config(aviary_cache: Path) -> RunConfig:
    return RunConfig(
        data="aviary",
        model="aviary:vgg",
        auxiliary="aviary",
        options={"per_class": 3},
        precision="float32",
        cache=aviary_cache,
    )


@pytest.fixture(scope="session")
def run_context(config: RunConfig) -> RunContext:
    made = open_run_context(config)
    _ = made.encodings
    return made


@pytest.fixture(scope="session")
def examples(run_context: RunContext, config: RunConfig) -> list[Example]:
    """The examples of the first page: chosen once, they are the same in every test."""
    state = ExplorerState(run_context, config)
    chosen = state.service.examples
    state.close()
    return chosen


@pytest.fixture
def state(run_context: RunContext, config: RunConfig, examples: list[Example]) -> Iterator[ExplorerState]:
    state = ExplorerState(run_context, config)
    state.service.examples = examples
    yield state
    state.close()


@pytest.fixture
def client(state: ExplorerState, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(server, "PAGE_SECONDS", 60)  # pages with their results, however busy the machine is
    return TestClient(make_app(state), base_url=BASE, follow_redirects=False)
