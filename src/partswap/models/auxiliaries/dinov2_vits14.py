"""DINOv2 (Oquab et al. 2023) with a ViT-S/14, trained without labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from partswap import _vision
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries.base import AUXILIARIES, TAU_TOKENS, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.multi_layer import feature_extractor
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(
    "https://dl.fbaipublicfiles.com/dinov2/dinov2_vits14/dinov2_vits14_pretrain.pth",
    heads=("mask_token",),
)


@AUXILIARIES.register("dinov2_vits14")
def dinov2_vits14(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return DINOv2's ViT-S/14 at 224 pixels: its 16 x 16 patch tokens after the last norm."""
    model = _vision.timm().create_model("vit_small_patch14_dinov2", img_size=224, num_classes=0)
    PUBLISHED.load(model, choice.weights, _resampled)
    return Auxiliary("dinov2_vits14", feature_extractor(model, choice.layer or "norm"), Preprocess(224), tau=TAU_TOKENS)


def _resampled(state: dict[str, Tensor], model: nn.Module) -> Mapping[str, Tensor]:
    """Bring the position embedding from the 37 x 37 patches of the training to 16 x 16."""
    model_state, position = model.state_dict(), state.get("pos_embed")
    patches, key = 0 if position is None or position.ndim != 3 else position.shape[1] - 1, "patch_embed.proj.weight"
    square = patches > 0 and math.isqrt(patches) ** 2 == patches
    if not square or key not in state or state[key].shape != model_state[key].shape:
        return state  # not these weights, and timm would bend them until they fit: loading says what is wrong
    timm: Any = _vision.timm()
    resampled: Mapping[str, Tensor] = timm.models.vision_transformer.checkpoint_filter_fn(state, model)
    return resampled
