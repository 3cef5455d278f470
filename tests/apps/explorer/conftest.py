"""A small explorer of drawn birds, opened once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from partswap.apps.explorer.examples import Example
from partswap.apps.explorer.server import ExplorerState, make_app
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext, open_run_context

# As `partswap explore` sets it, before anything is computed: memory is measured here.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
#: By number: a name is what a page elsewhere would come with.
BASE = "http://127.0.0.1"


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    return RunConfig(
        data="aviary",
        model="aviary:vgg",
        auxiliary="aviary",
        options={"per_class": 3},
        precision="float32",
        cache=tmp_path_factory.mktemp("cache"),
    )


@pytest.fixture(scope="session")
def bench(config: RunConfig) -> RunContext:
    made = open_run_context(config)
    _ = made.encodings
    return made


@pytest.fixture(scope="session")
def examples(bench: RunContext, config: RunConfig) -> list[Example]:
    """The examples of the first page: chosen once, they are the same in every test."""
    site = ExplorerState(bench, config)
    chosen = site.room.examples
    site.close()
    return chosen


@pytest.fixture
def site(bench: RunContext, config: RunConfig, examples: list[Example]) -> Iterator[ExplorerState]:
    site = ExplorerState(bench, config)
    site.room.examples = examples
    yield site
    site.close()


@pytest.fixture
def client(site: ExplorerState) -> TestClient:
    return TestClient(make_app(site), base_url=BASE, follow_redirects=False)
