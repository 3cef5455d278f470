"""The parts detector: a backbone and a 1 x 1 convolution that says, for every cell, which part it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from partswap.cut.network import cut_network
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.models.checkpoints import Trained, load_trained
from partswap.models.precision import device_of
from partswap.models.zoo import load_model


class PartsDetector(nn.Module):
    """Images ``(n, 3, size, size)`` to part logits ``(n, parts, h, w)``; the backbone is a classifier up to `layer`."""

    def __init__(self, model: nn.Module, layer: str, parts: int, *, size: int = 224) -> None:
        super().__init__()
        cut = cut_network(model, layer, probe=torch.randn(2, 3, size, size, device=device_of(model)))
        self.grid: GridShape = cut.grid
        self.backbone: nn.Module = cut.features.body
        self.classify = nn.Conv2d(cut.channels, parts, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return part logits of every cell."""
        logits: Tensor = self.classify(self.backbone(images))
        return logits


@dataclass(frozen=True)
class Detector(Trained):
    """A parts detector with what is needed to use it."""

    kind = "parts detector"
    model: PartsDetector
    layer: str  #: the last layer of its backbone
    parts: Sequence[str]  #: names, in the order of the logits
    preprocess: Preprocess  #: what it wants its images to be like

    @staticmethod
    def build(about: Mapping[str, Any]) -> PartsDetector:
        """Return the untrained network that a ``model.json`` tells of."""
        backbone = load_model(about["architecture"])
        return PartsDetector(backbone, about["layer"], len(about["parts"]), size=about["preprocess"]["size"])


def load_detector(folder: str | Path) -> Detector:
    """Read a parts detector that ``partswap train parts`` saved."""
    return load_trained(Detector, folder)
