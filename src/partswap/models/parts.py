"""The parts detector: a backbone and a 1 x 1 convolution that says, for every cell, which part it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from partswap.cut.network import cut_network
from partswap.errors import FileFormatError
from partswap.grid import GridShape
from partswap.images import Preprocess
from partswap.models.checkpoints import preprocess_from, read_about, write_network
from partswap.models.precision import device_of
from partswap.models.weights import read_weights
from partswap.models.zoo import load_model


class PartsDetector(nn.Module):
    """Images ``(n, 3, H, W)`` to part logits ``(n, parts, h, w)``.

    Parameters
    ----------
    model : nn.Module
        A classifier whose features up to `layer` become the backbone.
    layer : str
        The last layer of the backbone.
    parts : int
        How many parts there are.
    size : int
        Side of the images.
    """

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
class Detector:
    """A parts detector with what is needed to use it.

    Attributes
    ----------
    model : PartsDetector
        In eval mode.
    architecture, layer : str
        What its backbone is.
    parts : sequence of str
        Names, in the order of the logits.
    preprocess : Preprocess
        What it wants its images to be like.
    record : dict
        How it was trained and how good it is.
    """

    model: PartsDetector
    architecture: str
    layer: str
    parts: Sequence[str]
    preprocess: Preprocess
    record: dict[str, Any] = field(default_factory=dict)


def save_detector(detector: Detector, folder: Path) -> Path:
    """Write a parts detector; returns the folder."""
    write_network(
        folder,
        detector.model,
        kind="parts detector",
        architecture=detector.architecture,
        layer=detector.layer,
        parts=list(detector.parts),
        preprocess=asdict(detector.preprocess),
        record=detector.record,
    )
    return folder


def load_detector(folder: str | Path) -> Detector:
    """Read a parts detector that ``partswap train parts`` saved."""
    folder = Path(folder)
    about = read_about(folder, "parts detector")
    preprocess = preprocess_from(about)
    model = PartsDetector(
        load_model(about["architecture"]), about["layer"], len(about["parts"]), size=preprocess.size
    ).eval()
    try:
        model.load_state_dict(read_weights(folder / "model.safetensors"))
    except RuntimeError as error:
        raise FileFormatError(
            f"the weights in {folder} do not fit its model.json ({str(error).splitlines()[0]}).", "Train it again."
        ) from error
    return Detector(model, about["architecture"], about["layer"], about["parts"], preprocess, about["record"])
