"""Several networks as one: each sees the same images, standardised as it wants them.

Two networks describe a cell differently; an auxiliary may be made of layers of both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partswap.inputs.preprocess import Preprocess

#: Joins what names the networks: ``"imagenet_resnet50,efficientnet_lite0"``.
SEPARATOR = ","


class SideBySide(nn.Module):
    """Images ``(n, 3, H, W)``, standardised as the first network wants them, to the outputs of the last one.

    It is there for its layers, ``networks.0.layer4`` and so on, which `LayerExtractors` takes out.
    """

    def __init__(self, networks: Sequence[nn.Module], preprocesses: Sequence[Preprocess]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.sizes = [preprocess.shape for preprocess in preprocesses]
        first = preprocesses[0]
        scales, shifts = [], []
        for preprocess in preprocesses:
            mean, std = (torch.tensor(getattr(preprocess, name)) for name in ("mean", "std"))
            scales.append(torch.tensor(first.std) / std)
            shifts.append((torch.tensor(first.mean) - mean) / std)
        self.scales: Tensor
        self.shifts: Tensor
        self.register_buffer("scales", torch.stack(scales).view(-1, 1, 3, 1, 1))
        self.register_buffer("shifts", torch.stack(shifts).view(-1, 1, 3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return the outputs of the last network; all of them run."""
        outputs = images
        for network, size, scale, shift in zip(self.networks, self.sizes, self.scales, self.shifts, strict=True):
            inputs = images * scale + shift
            if tuple(inputs.shape[2:]) != size:
                inputs = F.interpolate(inputs, size, mode="bilinear", align_corners=False, antialias=True)
            outputs = network(inputs)
        return outputs


def networks_of(layers: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the layers of each network; names without a network are of a single one."""
    numbers: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        network = re.match(r"networks\.\d+\.", layer)
        numbers.setdefault(network[0] if network else "", []).append(number)
    return list(numbers.values())


def layers_of(number: int, layers: Sequence[str]) -> list[str]:
    """Return which of the layers' names are of one network, as it calls them itself."""
    prefix = f"networks.{number}."
    return [layer.removeprefix(prefix) for layer in layers if layer.startswith(prefix)]


def prefixed_layers(layers: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of every network's layers as `SideBySide` has them."""
    return [f"networks.{number}.{layer}" for number, names in enumerate(layers) for layer in names]
