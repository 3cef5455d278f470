"""DINO (Caron et al. 2021) with a ViT-S/16, trained without labels."""

from __future__ import annotations

from partswap import _vision
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries.base import AUXILIARIES, TAU_TOKENS, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.multi_layer import feature_extractor
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(
    "https://dl.fbaipublicfiles.com/dino/dino_deitsmall16_pretrain/dino_deitsmall16_pretrain.pth",
    prefix="backbone.",  # in a full checkpoint, of which the teacher is taken
    heads=("head.",),
)


@AUXILIARIES.register("dino_vits16")
def dino_vits16(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return DINO's ViT-S/16: its 14 x 14 patch tokens after the last norm."""
    model = _vision.timm().create_model("vit_small_patch16_224", num_classes=0)
    PUBLISHED.load(model, choice.weights)
    return Auxiliary("dino_vits16", feature_extractor(model, choice.layer or "norm"), Preprocess(224), tau=TAU_TOKENS)
