"""EfficientNet-Lite0 trained on ImageNet's labels: small and fast."""

from __future__ import annotations

from partswap import _vision
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.multi_layer import feature_extractor
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(
    "https://github.com/rwightman/pytorch-image-models/releases/download/v0.1-weights/tf_efficientnet_lite0-0aa007d2.pth",
    heads=("classifier.",),
)


@AUXILIARIES.register("efficientnet_lite0")
def efficientnet_lite0(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return timm's EfficientNet-Lite0, cut before its final pooling."""
    model = _vision.timm().create_model("tf_efficientnet_lite0", num_classes=0)
    PUBLISHED.load(model, choice.weights)
    half = (0.5, 0.5, 0.5)
    return Auxiliary(
        "efficientnet_lite0", feature_extractor(model, choice.layer or "bn2"), Preprocess(224, mean=half, std=half)
    )
