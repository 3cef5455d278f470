"""What a model wants its images to be like, as far as the model itself says."""

from __future__ import annotations

from torch import nn

from partswap.images import Preprocess


def preprocess_for(model: nn.Module) -> Preprocess:
    """Return the preprocessing a model was trained with.

    timm models carry theirs; for others it is ImageNet's: short side 256, centre 224.
    """
    config = getattr(model, "pretrained_cfg", None)
    if not isinstance(config, dict) or "mean" not in config:
        return Preprocess(224, 256)
    size = int(config["input_size"][-1])
    embed = getattr(model, "patch_embed", None)
    if embed is not None and getattr(embed, "img_size", None):
        size = int(embed.img_size[-1])
    resize = int(size / float(config.get("crop_pct") or 1.0))
    return Preprocess(size, resize, tuple(config["mean"]), tuple(config["std"]))
