"""What an auxiliary is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from PIL.Image import Image, Resampling
from torch import Tensor, nn

from partswap.cut.shadow_copy import shadow_copy
from partswap.errors import ShapeError
from partswap.grid import to_cells
from partswap.inputs.preprocess import Preprocess
from partswap.models.multi_layer import MultiLayerFeatures, nearest_similarity
from partswap.models.precision import device_of
from partswap.utils.progress import Track, no_progress, tracked
from partswap.utils.registry import Registry

# Cells after a ReLU have cosines from 0 to 1, tokens after a layer norm from -1 to 1: twice the range, so twice the
# temperature of the ResNets for a matching that is as sharp.
TAU_TOKENS = 0.2


class ImageSource(Protocol):
    """Images by number."""

    def image(self, index: int) -> Image:
        """Return one image."""


@dataclass(frozen=True)
class Auxiliary:
    """A model whose cells can be compared across images.

    Parameters
    ----------
    name : str
        For records.
    model : torch.nn.Module
        From images ``(n, 3, H, W)`` to a grid ``(n, e, h, w)``.
    preprocess : Preprocess
        What the model wants its images to be like: the size the classifier's picture is brought to, mean and std.
    tau : float
        The temperature that suits its cosines, for methods that do not find it themselves.
    typical_similarity : float, optional
        The mean cosine of the cells it was trained on with the nearest of its prototypes (see `familiarity`).
    note : str
        What to tell the user about it: why it was chosen, and what would be better.
    """

    name: str
    model: nn.Module
    preprocess: Preprocess
    tau: float = 0.1
    typical_similarity: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        # The same weights in eval mode: batch statistics would make a grid depend on what is encoded beside it.
        object.__setattr__(self, "model", shadow_copy(self.model))

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of the layers that are side by side in its grids and not yet centered; empty if there is one."""
        return (
            tuple(self.model.widths) if isinstance(self.model, MultiLayerFeatures) and not self.model.is_fitted else ()
        )

    def familiarity(self, grids: Tensor) -> float | None:
        """Return how similar cells are to those it was trained on: 1 is as similar as those, None if that is unknown.

        `grids` are its own, ``(n, e, h, w)``.
        """
        model = self.model
        if self.typical_similarity is None or not isinstance(model, MultiLayerFeatures) or not len(model.prototypes):
            return None
        return float(nearest_similarity(to_cells(grids), model.prototypes)) / self.typical_similarity

    def inputs(self, pictures: Sequence[Image | Tensor]) -> Tensor:
        """Return the batch ``(n, channels, H, W)`` that the model gets of the classifier's pictures.

        Where a picture cannot hold all channels, they are the classifier's own inputs.
        """
        tensors = [picture for picture in pictures if isinstance(picture, Tensor)]
        if tensors:
            return torch.stack(tensors).to(device_of(self.model))
        size = self.preprocess.shape[::-1]
        # Resized, never cropped: cells of both grids must show the same places.
        resized = [p.resize(size, Resampling.BILINEAR) for p in pictures if not isinstance(p, Tensor)]
        return torch.stack([self.preprocess.tensor(picture) for picture in resized]).to(device_of(self.model))

    def reader(self, data: ImageSource, preprocess: Preprocess) -> Callable[[int], Tensor]:
        """Return what makes the model's input of an image of a data set, as a classifier with `preprocess` sees it."""
        return lambda index: self.inputs([preprocess.crop(data.image(index))])[0]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the grids ``(n, e, h, w)`` of a batch that `inputs` made."""
        grids = self.model(inputs)
        if not isinstance(grids, Tensor) or grids.ndim != 4:
            got = tuple(grids.shape) if isinstance(grids, Tensor) else f"a {type(grids).__name__}"
            raise ShapeError(
                f"the auxiliary {self.name} returned {got}.",
                "It must map images to a grid (n, channels, height, width); cut it before its pooling.",
            )
        return grids

    @torch.no_grad()
    def grids(self, pictures: Sequence[Image | Tensor], *, batch: int = 32, track: Track = no_progress) -> Tensor:
        """Return the auxiliary grids ``(n, e, h, w)`` of the classifier's pictures (see `inputs`)."""
        grids = []
        chunks = [pictures[start : start + batch] for start in range(0, len(pictures), batch)]
        for chunk in tracked(chunks, "auxiliary features", track, total=len(pictures), size=len):
            grids.append(self.forward(self.inputs(chunk)))
        return torch.cat(grids)


@dataclass(frozen=True)
class AuxiliaryChoice:
    """An auxiliary by name, with what is not to be its own default."""

    name: str  #: registered, or from the zoo
    weights: str | None = None  #: a file
    layer: str | None = None  #: where it is cut
    tau: float | None = None  #: temperature

    @classmethod
    def parse(cls, text: str) -> AuxiliaryChoice:
        """Read ``name``, ``name=weights`` or ``name=weights@layer``; an empty weights part keeps the official ones."""
        name, _, source = text.partition("=")
        if not source:
            name, at, layer = name.partition("@")
        else:
            source, at, layer = source.partition("@")
        return cls(name, source or None, layer if at else None)

    def __str__(self) -> str:
        """Return what `parse` reads."""
        layer = f"@{self.layer}" if self.layer else ""
        return f"{self.name}={self.weights}{layer}" if self.weights else f"{self.name}{layer}"


@dataclass(frozen=True)
class ClassifierContext:
    """The classifier that is explained, for auxiliaries that are made of it."""

    model: nn.Module
    preprocess: Preprocess  #: what it wants its images to be like
    layer: str | None = None  #: where it is cut, if that is known
    data: str | None = None  #: fingerprint of the images it was trained on, if that is known


class AuxiliaryBuilder(Protocol):
    """What is registered: makes an auxiliary as it was chosen; official weights and its usual layer by default."""

    def __call__(self, choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
        """Return the auxiliary."""


AUXILIARIES: Registry[AuxiliaryBuilder] = Registry("auxiliary", "partswap.models.auxiliaries")
