"""What to train: a network, the weights it starts from, and the layers that stay frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from partswap.cut.network import Cut, cut_network
from partswap.errors import SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.models.open import is_architecture, start_of
from partswap.models.precision import device_of
from partswap.models.preprocessing import preprocess_for
from partswap.models.weights import start_from
from partswap.models.zoo import load_model


@dataclass(frozen=True)
class TrainingPlan:
    """What to train."""

    architecture: str  #: A name from the zoo, or what names a model of one's own.
    #: A file, the name of a model, "default" (official ImageNet weights, or those the model brings), or None (random
    #: numbers).
    start: str | None = "default"
    #: The layer up to which nothing changes; its output is computed once. None trains everything, from the images.
    freeze: str | None = None
    views: int = 4  #: How many views of each training image are kept behind the frozen layer.
    freeze_norm: bool = True  #: Whether batch norm keeps the statistics it started with, as small batches need.
    resize: int | None = None  #: Short side of the image before the centre is cropped; None: the network's usual one.
    pooled: bool = False  #: Whether a new linear layer on a whole grid starts as if it read the grid's average.

    def begin(self, device: torch.device, *, classes: int | None = None) -> tuple[nn.Module, list[str]]:
        """Return the network as it starts, and the names of the parameters that start from random numbers."""
        model = load_model(self.architecture, classes=classes)
        if self.start is None:
            random = [name for name, _ in model.named_parameters()]
        elif self.start == "default":
            weights = "default" if is_architecture(self.architecture) else None
            random = start_from(model, load_model(self.architecture, weights=weights).state_dict())
        else:
            random = start_from(model, start_of(self.start)[1])
        model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model, random

    def preprocess(self, model: nn.Module) -> Preprocess:
        """Return how images become inputs."""
        usual = preprocess_for(model)
        if self.resize is None:
            return usual
        if self.resize < usual.side:
            raise SettingError(f"resize is {self.resize}.", f"The network sees {usual.side} pixels: use at least that.")
        return replace(usual, resize=self.resize)

    def trunk(self, model: nn.Module) -> Cut | None:
        """Return the network cut where it is frozen, None if all of it is trained."""
        return None if self.freeze is None else cut_for_training(model, self.freeze, self.preprocess(model).side)


def cut_for_training(model: nn.Module, layer: str, size: int) -> Cut:
    """Return a network cut where it is frozen; ``head.body`` can be trained."""
    cut = cut_network(model, layer, probe=torch.randn(2, 3, size, size, device=device_of(model)))
    if cut.route != "fx":
        raise SettingError(
            f"{type(model).__name__} cannot be trained behind {layer!r}: its graph cannot be read.",
            "Freeze up to another layer, or leave {freeze} out and train all of it.",
        )
    return cut
