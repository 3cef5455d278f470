"""DINO (Caron et al. 2021) with a ResNet-50, trained without labels."""

from __future__ import annotations

from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(
    "https://dl.fbaipublicfiles.com/dino/dino_resnet50_pretrain/dino_resnet50_pretrain.pth",
    prefix="backbone.",  # in a full checkpoint, of which the teacher is taken
    heads=("fc.", "head."),
)


@AUXILIARIES.register("dino_resnet50")
def dino_resnet50(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return DINO's ResNet-50."""
    return resnet50_auxiliary("dino_resnet50", PUBLISHED, choice)
