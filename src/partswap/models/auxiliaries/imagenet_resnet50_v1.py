"""A ResNet-50 with the strides of He et al. 2016, for weights that come from Caffe."""

from __future__ import annotations

from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(None, heads=("fc.",))


@AUXILIARIES.register("imagenet_resnet50_v1")
def imagenet_resnet50_v1(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return the original ResNet-50; these weights are not published for PyTorch, so a file must be given."""
    return resnet50_auxiliary("imagenet_resnet50_v1", PUBLISHED, choice, zoo="partswap:resnet50_v1")
