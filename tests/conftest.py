"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

if TYPE_CHECKING:
    from partswap.experiments.config import RunConfig

# Tests run many tiny operations, for which a second thread only waits; on a busy machine it waits very long.
torch.set_num_threads(1)


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
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """The settings of a small run that was made without interruption; its folder is ``whole_run.out``."""
    from partswap.experiments.config import RunConfig
    from partswap.experiments.runs import run

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
        cache=folder / "cache",
        out=folder / "whole",
        workers=1,
    )
    run(config)
    return config


def make_head(kind: str, channels: int, classes: int, cells: int = 49, hidden: int = 48) -> nn.Module:
    """A small head of each kind, in the layouts of the golden cases."""
    if kind == "pooled":
        layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(channels, classes)]
    elif kind == "flattened":
        layers = [nn.Flatten(1), nn.Linear(cells * channels, hidden), nn.ReLU(), nn.Dropout()]
        layers += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, classes)]
    else:
        layers = [nn.Conv2d(channels, 24, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU()]
        layers += [nn.Conv2d(24, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU()]
        layers += [nn.Conv2d(24, channels, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
        layers += [nn.Linear(channels, classes)]
    return nn.Sequential(*layers).eval()


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
