"""MoCo v2 (Chen et al. 2020): a ResNet-50 trained without labels."""

from __future__ import annotations

from pathlib import Path

from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.published import Published

PUBLISHED = Published(
    "https://dl.fbaipublicfiles.com/moco/moco_checkpoints/moco_v2_800ep/moco_v2_800ep_pretrain.pth.tar",
    prefix="encoder_q.",
    heads=("fc.", "encoder_k.", "queue"),
)


@AUXILIARIES.register("moco")
def moco(*, weights: str | Path | None = None, layer: str | None = None) -> Auxiliary:
    """Return MoCo v2, 800 epochs: the encoder of the queries."""
    return resnet50_auxiliary("moco", PUBLISHED, weights, layer)
