"""Networks of torchvision and timm with random weights, for tests that build the same ones again and again."""

from __future__ import annotations

import copy
from functools import lru_cache

import torch
from torch import nn

from partswap import _vision


def tv(name: str, **options: object) -> nn.Module:
    """Return a network of torchvision for ten classes; a VGG's hidden layers, its largest by far, are narrow."""
    return copy.deepcopy(_torchvision(name, tuple(sorted(options.items()))))


def tm(name: str, **options: object) -> nn.Module:
    """Return a network of timm for ten classes."""
    return copy.deepcopy(_timm(name, tuple(sorted(options.items()))))


# To copy weights is much faster than to draw them; few are cached, for each is up to a hundred megabytes.
@lru_cache(maxsize=6)
def _torchvision(name: str, options: tuple[tuple[str, object], ...]) -> nn.Module:
    models = _vision.torchvision().models
    if not name.startswith("vgg"):
        return models.get_model(name, num_classes=10, **dict(options))
    with torch.device("meta"):
        model = models.get_model(name, num_classes=10, **dict(options))
    for place, sizes in {0: (512 * 7 * 7, 64), 3: (64, 64), 6: (64, 10)}.items():
        model.classifier[place] = nn.Linear(*sizes)
    model.to_empty(device="cpu")
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return model


@lru_cache(maxsize=6)
def _timm(name: str, options: tuple[tuple[str, object], ...]) -> nn.Module:
    return _vision.timm().create_model(name, num_classes=10, **dict(options))
