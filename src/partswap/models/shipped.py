"""The small aviary networks that come with the package, weights included."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from partswap.aviary import all_species
from partswap.errors import UnknownNameError, suggest
from partswap.inputs.preprocess import Preprocess
from partswap.models.small import SmallAuxiliary, SmallResNet, SmallVGG

#: Mean and standard deviation the images are standardised with, all channels alike.
NORMALIZATION = (0.45, 0.25)
PREPROCESS = Preprocess(224, mean=(NORMALIZATION[0],) * 3, std=(NORMALIZATION[1],) * 3)


def build(which: str) -> nn.Module:
    """Return an untrained network: "vgg", "resnet" or "auxiliary"."""
    if which == "auxiliary":
        return SmallAuxiliary()
    classifiers: dict[str, type[SmallVGG | SmallResNet]] = {"vgg": SmallVGG, "resnet": SmallResNet}
    if which in classifiers:
        return classifiers[which](len(all_species()))
    names = [f"aviary:{name}" for name in classifiers]
    raise UnknownNameError(
        f"there is no model called 'aviary:{which}'.", suggest(f"aviary:{which}", names) or f"Use {' or '.join(names)}."
    )


def load(which: str) -> nn.Module:
    """Return a trained network in eval mode: "vgg", "resnet" or "auxiliary"."""
    model = build(which)
    with resources.as_file(weights_path(which)) as path:
        state = load_file(path)
    model.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
    return model.eval()


def weights_path(which: str) -> Path:
    """Return where the weights of a shipped network are."""
    return Path(str(resources.files("partswap.models"))) / "weights" / f"aviary_{which}.safetensors"


def normalize(images: Tensor) -> Tensor:
    """Return uint8 images ``(n, 3, h, w)`` as the shipped networks want them."""
    mean, std = NORMALIZATION
    return images.to(torch.float32).mul_(1 / (255 * std)).sub_(mean / std)
