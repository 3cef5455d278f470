"""MoCo v2 (Chen et al. 2020): a ResNet-50 trained without labels."""

from __future__ import annotations

from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(
    "https://dl.fbaipublicfiles.com/moco/moco_checkpoints/moco_v2_800ep/moco_v2_800ep_pretrain.pth.tar",
    prefix="encoder_q.",
    heads=("fc.", "encoder_k.", "queue"),
)


@AUXILIARIES.register("moco")
def moco(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return MoCo v2, 800 epochs: the encoder of the queries."""
    return resnet50_auxiliary("moco", PUBLISHED, choice)
