"""A ResNet-50 with the strides of He et al. 2016, for weights that come from Caffe."""

from __future__ import annotations

from pathlib import Path

from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.published import Published

PUBLISHED = Published(None, heads=("fc.",))


@AUXILIARIES.register("imagenet_resnet50_v1")
def imagenet_resnet50_v1(*, weights: str | Path | None = None, layer: str | None = None) -> Auxiliary:
    """Return the original ResNet-50; nobody publishes these weights for PyTorch, so a file must be given."""
    architecture = "partswap:resnet50_v1"
    return resnet50_auxiliary("imagenet_resnet50_v1", PUBLISHED, weights, layer, architecture=architecture)
