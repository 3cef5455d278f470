"""A ResNet-50 with the strides of He et al. 2016, for weights that come from Caffe."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from partswap.images import Preprocess
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.published import Published
from partswap.models.trunk import Trunk
from partswap.models.zoo import load_model

PUBLISHED = Published(None, heads=("fc.",))


@AUXILIARIES.register("imagenet_resnet50_v1")
def imagenet_resnet50_v1(*, weights: str | Path | None = None, layer: str | None = None) -> Auxiliary:
    """Return the original ResNet-50; nobody publishes these weights for PyTorch, so a file must be given."""
    model = load_model("partswap:resnet50_v1")
    model.fc = nn.Identity()
    PUBLISHED.load(model, weights)
    return Auxiliary("imagenet_resnet50_v1", Trunk(model, layer or "layer4"), Preprocess(224))
