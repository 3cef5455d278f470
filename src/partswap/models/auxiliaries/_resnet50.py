"""What the self-supervised ResNet-50s have in common."""

from __future__ import annotations

from pathlib import Path

from partswap.images import Preprocess
from partswap.models.auxiliaries.base import Auxiliary
from partswap.models.published import Published, resnet50
from partswap.models.trunk import Trunk


def resnet50_auxiliary(
    name: str, published: Published, weights: str | Path | None, layer: str | None, *, size: int = 224
) -> Auxiliary:
    """Return a ResNet-50 with published weights, cut before its final pooling unless told otherwise."""
    model = resnet50()
    published.load(model, weights)
    return Auxiliary(name, Trunk(model, layer or "layer4", size=size), Preprocess(size))
