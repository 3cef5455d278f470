"""A classifier in a user's own files, one of which imports the other."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch

from partswap.features.encode import EncodedImages
from partswap.inputs.preprocess import Preprocess
from partswap.results.counterfactual import Counterfactual
from partswap.runs.context import RunContext
from partswap.runs.payload import WorkerPayload
from partswap.runs.tasks import Task, explain_tasks
from partswap.search import METHODS

LAYERS = """
from torch import nn

class OwnBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, stride=8, padding=1)

    def forward(self, x):
        return self.conv(x).relu()
"""
MODEL = """
import torch
from torch import nn
from own_layers import OwnBlock

def squash(x):
    return x.tanh()

class OwnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = OwnBlock(6)
        self.squash = squash
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.squash(self.block(x).mean((2, 3))))

def build():
    torch.manual_seed(0)
    return OwnNet().eval()
"""


def load(folder: Path, name: str, *, register: bool) -> ModuleType:
    """Write the files and load one of them under a name of its own; its folder must be on the path."""
    folder.mkdir(exist_ok=True)
    (folder / "own_layers.py").write_text(LAYERS)
    (folder / "mymodel.py").write_text(MODEL)
    sys.modules.pop("own_layers", None)
    spec = importlib.util.spec_from_file_location(name, folder / "mymodel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if register:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _bench(own: ModuleType, bench: RunContext) -> RunContext:
    classifier = replace(bench.classifier, model=own.build(), classes=list("abcd"), preprocess=Preprocess(32, 32))
    return replace(bench, classifier=classifier, layer="block", auxiliary=None, cache=None)


def _encoded(bench: RunContext) -> EncodedImages:
    pixels = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return bench.explainer.encode(pixels)


def bundle_of(own: ModuleType, bench: RunContext) -> WorkerPayload:
    """Return some explanations to make of the network."""
    mine = _bench(own, bench)
    # As features of a run are: without the images they were made from.
    encoded = replace(_encoded(mine), pictures=(), frames=(), sources=())
    said = encoded.logits.argmax(1)
    tasks = [Task(k, int((said[k] + 1) % 4), ((k + 1) % 6, (k + 2) % 6)) for k in range(6)]
    vars(mine)["encodings"] = encoded
    return WorkerPayload.of(mine, tasks, {"goyal": METHODS.get("goyal")(max_edits=2)})


def direct(own: ModuleType, bench: RunContext, bundle: WorkerPayload) -> list[Counterfactual]:
    """Return the same explanations, made here."""
    mine = _bench(own, bench)
    found = explain_tasks(mine.explainer, bundle.features, bundle.tasks, bundle.methods["goyal"])
    return [cf for _, cf in found]
