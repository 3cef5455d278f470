"""A ResNet-50 trained on ImageNet's labels: what the classifiers themselves start from."""

from __future__ import annotations

from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.published import PublishedWeights

# torchvision's IMAGENET1K_V1
PUBLISHED = PublishedWeights("https://download.pytorch.org/models/resnet50-0676ba61.pth", heads=("fc.",))


@AUXILIARIES.register("imagenet_resnet50")
def imagenet_resnet50(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return torchvision's first ResNet-50."""
    return resnet50_auxiliary("imagenet_resnet50", PUBLISHED, choice)
