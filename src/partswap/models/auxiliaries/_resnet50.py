"""What the ResNet-50s have in common."""

from __future__ import annotations

from torch import nn

from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries.base import Auxiliary, AuxiliaryChoice
from partswap.models.multi_layer import feature_extractor
from partswap.models.published import PublishedWeights
from partswap.models.zoo import load_model


def resnet50_auxiliary(
    name: str,
    published: PublishedWeights,
    choice: AuxiliaryChoice,
    *,
    zoo: str = "torchvision:resnet50",
    size: int = 224,
) -> Auxiliary:
    """Return the zoo's ResNet-50 with published weights, by default cut before its final pooling."""
    model = load_model(zoo)
    model.fc = nn.Identity()
    published.load(model, choice.weights)
    return Auxiliary(name, feature_extractor(model, choice.layer or "layer4", size=size), Preprocess(size))
