"""What ``partswap train words`` makes: a linear classifier per attribute, beside the classifier's own last layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from partswap.data.base import Meaning
from partswap.inputs.preprocess import Preprocess
from partswap.models.checkpoints import Trained, read_about


class AttributeHeads(nn.Module):
    """Linear classifiers on pooled features: one per attribute, and the classes' own."""

    def __init__(self, attributes: int, classes: int, channels: int) -> None:
        super().__init__()
        self.attributes: Tensor  #: ``(attributes, channels)``
        self.classes: Tensor  #: ``(classes, channels)``
        self.bias: Tensor  #: of the attributes, ``(attributes,)``
        self.register_buffer("attributes", torch.zeros(attributes, channels))
        self.register_buffer("bias", torch.zeros(attributes))
        self.means: Tensor  #: pooled features of every class on average, about the mean of all, ``(classes, channels)``
        self.register_buffer("classes", torch.zeros(classes, channels))
        self.register_buffer("means", torch.zeros(classes, channels))

    def forward(self, pooled: Tensor) -> Tensor:
        """Return whether pooled features ``(n, channels)`` show each attribute: above zero they do."""
        return pooled @ self.attributes.T + self.bias


@dataclass(frozen=True)
class WordsModel(Trained):
    """Attributes as directions of a classifier's pooled features."""

    kind = "words model"
    model: AttributeHeads
    layer: str  #: where the classifier is cut
    channels: int  #: of its features there
    weights: str  #: digest of the classifier's weights
    classes: Sequence[str]  #: names, in the order of the logits
    #: Attributes that are used: name, part, kind, value, average precision on held-out images and that of chance.
    attributes: Sequence[Mapping[str, Any]]
    #: Attributes that are not, with the reason.
    dropped: Sequence[Mapping[str, Any]]
    parts: str | None  #: what tells the parts of cells: a detector's folder, a file of named clusters
    agreement: float | None  #: how often the linear stand-in says what the model says; None: the head is linear itself
    preprocess: Preprocess  #: what the classifier wants its images to be like

    @staticmethod
    def build(about: Mapping[str, Any]) -> AttributeHeads:
        """Return the empty classifiers that a ``model.json`` tells of."""
        return AttributeHeads(len(about["attributes"]), len(about["classes"]), about["channels"])

    @property
    def meanings(self) -> list[Meaning]:
        """What each attribute says."""
        return [Meaning(a["part"], a["kind"], a["value"]) for a in self.attributes]


def layer_of(folder: str | Path) -> str:
    """Return where the classifier of a words model is cut."""
    return str(read_about(WordsModel, Path(folder))["layer"])
