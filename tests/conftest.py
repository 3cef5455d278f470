"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import torch

from small_heads import make_head

if TYPE_CHECKING:
    from partswap.runs.config import RunConfig

# Tests run many tiny operations, for which a second thread only waits; on a busy machine it waits very long.
torch.set_num_threads(1)
# A test never asserts a time: a first example that imports something would fail on a busy machine.
# `make soak` asks for the profile "soak" (--hypothesis-profile).
hypothesis.settings.register_profile("quick", deadline=None, max_examples=15)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=200)
hypothesis.settings.load_profile("quick")


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder with reference data (golden cases, photographs, pretrained weights): optional, never needed."""
    beside = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("PARTSWAP_REFERENCE", beside))
    if not (folder / "golden" / "cases.json").exists():
        pytest.skip("no reference data here (set PARTSWAP_REFERENCE to its folder)")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium on this machine")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session that all workers of pytest-xdist share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def aviary_cache(shared_folder: Path) -> Path:
    """A cache of features, for tests that are not about caches: whoever is first computes, the others read."""
    return shared_folder / "cache"


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory, shared_folder: Path, aviary_cache: Path) -> RunConfig:
    """The settings of a small run that was made without interruption; its folder is ``whole_run.out``."""
    from filelock import FileLock

    from partswap.runs.config import RunConfig
    from partswap.runs.run import run

    folder = tmp_path_factory.mktemp("run")
    config = RunConfig(
        data="aviary",
        model="aviary:vgg",
        auxiliary="aviary",
        options={"per_class": 2},
        methods=("goyal", "paper"),
        settings={"goyal": {"max_edits": 2}, "paper": {"max_edits": 3}},
        distractors=2,
        queries=11,
        shard=1,
        precision="float32",
        cache=aviary_cache,
        out=folder / "whole",
        workers=1,
    )
    # Made once; every worker has a copy, which its tests may change.
    with FileLock(shared_folder / "whole.lock"):
        made = run(config.with_(out=shared_folder / "whole"))
    shutil.copytree(made.folder, config.out)
    return config


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs draw nothing, for tests of numbers: figures take longer than a few explanations."""
    from partswap.runs import figures

    monkeypatch.setattr(figures, "draw_examples", lambda *_: None)
    monkeypatch.setattr(figures, "draw_metrics", lambda *_: None)


@pytest.fixture
def problem() -> dict[str, object]:
    """A small search problem: pooled head, 4 distractors, auxiliary grids."""
    g = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    head = make_head("pooled", 8, 5)
    query, distractors = torch.randn(8, 7, 7, generator=g), torch.randn(4, 8, 7, 7, generator=g)
    said = int(head(query[None]).argmax())
    return {
        "head": head,
        "query": query,
        "distractors": distractors,
        "target": 1 + said % 4,
        "query_aux": torch.randn(6, 7, 7, generator=g),
        "distractor_aux": torch.randn(4, 6, 7, 7, generator=g),
    }
