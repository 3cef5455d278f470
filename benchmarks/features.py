"""Feature extraction from files to disk against the bare forward pass on tensors that are already in memory."""

from __future__ import annotations

import copy
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from partswap.data.sets.aviary import Aviary
from partswap.data.sets.folder import Folder
from partswap.explainer.explainer import Explainer
from partswap.features.encode import BATCH, classifier_features
from partswap.grid import FeatureGrids
from partswap.models.precision import autocast, fast_precision
from partswap.models.zoo import load_model

IMAGES = 160
ROUNDS = 3


def measure(name: str) -> dict[str, Any]:
    """Return the seconds of both."""
    torch.manual_seed(0)
    explainer = Explainer(load_model(name), auxiliary=None)
    # The fastest layout for the bare pass; what is measured against it is what users run.
    fastest = copy.deepcopy(explainer.cut.features).to(memory_format=torch.channels_last)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        data = Aviary("test", per_class=IMAGES // 40)
        for index in range(IMAGES):
            place = root / "images" / str(data.label(index))
            place.mkdir(parents=True, exist_ok=True)
            data.image(index).resize((340, 256)).save(place / f"{index}.jpg", quality=90)
        files = Folder(root / "images", "all")
        inputs = torch.stack([explainer.preprocess(files.image(i))[0] for i in range(IMAGES)])
        row: dict[str, Any] = {"model": name, "images": IMAGES}
        for precision in dict.fromkeys(("float32", fast_precision())):
            bare, streamed = [], []
            for _ in range(ROUNDS):  # taking turns, so that noise hits both
                bare.append(_bare(fastest, explainer.cut.head, inputs, precision))
                begun = time.perf_counter()
                classifier_features(files, explainer, cache=root / "cache", precision=precision)
                streamed.append(time.perf_counter() - begun)
                shutil.rmtree(root / "cache")
            row[precision] = {
                "bare_seconds": statistics.median(bare),
                "streamed_seconds": statistics.median(streamed),
                "ratio": statistics.median(s / b for s, b in zip(streamed, bare, strict=True)),
            }
    return row


@torch.inference_mode()
def _bare(features: nn.Module, head: nn.Module, inputs: torch.Tensor, precision: str) -> float:
    """Features and logits of a whole batch, nothing read and nothing written."""
    begun = time.perf_counter()
    for batch in inputs.split(BATCH):
        with autocast(precision):
            grids = features(batch.contiguous(memory_format=torch.channels_last))
        head(FeatureGrids(grids.values.float(), grids.context))
    return time.perf_counter() - begun
