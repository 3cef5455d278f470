"""DeepCluster-v2 (Caron et al. 2020): a ResNet-50 trained without labels, the paper's auxiliary."""

from __future__ import annotations

from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(
    "https://dl.fbaipublicfiles.com/deepcluster/deepclusterv2_800ep_pretrain.pth.tar",
    heads=("projection_head.", "prototypes."),
)


@AUXILIARIES.register("deepcluster")
def deepcluster(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return DeepCluster-v2, 800 epochs."""
    return resnet50_auxiliary("deepcluster", PUBLISHED, choice)
