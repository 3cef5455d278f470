"""Several layers of a network as one grid: each centered and brought to length 1, side by side, then reduced.

Early layers describe the texture of a cell, late ones what it belongs to. What all cells share says nothing about which
part a cell shows, so it is subtracted. Means and principal components are fitted on images; without them the layers are
returned as they are, and the search centers them on the images of each explanation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partswap.cut.layer_extractor import PLUS, LayerExtractor, LayerExtractors
from partswap.cut.shadow_copy import EvalModule
from partswap.errors import SettingError, ShapeError
from partswap.grid import resize_grid, to_cells
from partswap.models.side_by_side import networks_of

#: Principal components that are kept of a network's layers.
COMPONENTS = 512
#: Names of the buffers that are fitted or trained, in files too.
STATE = ("mean", "basis", "offset", "known", "turn")


class MultiLayerFeatures(EvalModule):
    """Images ``(n, 3, H, W)`` to one grid ``(n, e, h, w)`` made of several layers.

    Parameters
    ----------
    model : nn.Module
        Any network; a shadow copy of it is used, and it is left as it is.
    layers : sequence of str
        Which layers; the coarsest of their grids is that of the result.
    size : int or (int, int)
        The images' side, or height and width.
    """

    def __init__(self, model: nn.Module, layers: Sequence[str], *, size: int | tuple[int, int] = 224) -> None:
        super().__init__()
        self.trunks = LayerExtractors(model, layers, size=size)
        #: Whether cells are the mean of what the image and its mirror image give; that takes two passes.
        self.flip_average = False
        #: How much of a cell is the mean of the 3 x 3 cells around it.
        self.smoothing = 0.0
        self.mean: Tensor  #: of the cells of every layer, ``(channels,)``
        self.basis: Tensor  #: from the layers side by side to the result, ``(channels, e)``
        self.offset: Tensor  #: of the result, ``(e,)``
        self.known: Tensor  #: the prototypes; files and fingerprints have this name
        self.turn: Tensor  #: the projection, likewise
        channels = sum(self.widths)
        empty = (torch.zeros(channels), torch.zeros(channels, 0), torch.zeros(0), torch.zeros(0, 0), torch.zeros(0, 0))
        self._set(*empty)

    @property
    def is_fitted(self) -> bool:
        """Whether it centers and reduces."""
        return len(self.offset) > 0

    @property
    def prototypes(self) -> Tensor:
        """Directions that stand for the cells it was fitted on, ``(k, e)``; empty if they were not stored."""
        return self.known

    @property
    def projection(self) -> Tensor:
        """From several networks' features side by side to one, ``(channels, e)``; empty if there is none."""
        return self.turn

    @property
    def layers(self) -> list[str]:
        """Names of the layers."""
        return self.trunks.layers

    @property
    def widths(self) -> list[int]:
        """Channels of the layers."""
        return self.trunks.widths

    def extra_repr(self) -> str:
        """Return the options, in the words that fingerprints of stored features have."""
        options = {"both_ways": self.flip_average, "smoothing": self.smoothing}
        return ", ".join(f"{name}={value}" for name, value in options.items() if value)

    def raw(self, images: Tensor) -> Tensor:
        """Return the layers' grids as they are, side by side: ``(n, channels, h, w)``."""
        return torch.cat([resize_grid(grids, self.trunks.grid) for grids in self.trunks(images)], 1)

    @property
    def networks(self) -> list[list[int]]:
        """Numbers of the layers of each network: one list, unless several are side by side."""
        return networks_of(self.layers)

    def forward(self, images: Tensor) -> Tensor:
        """Return the grids of images."""
        grids = self._grids(images)
        if self.flip_average:
            grids = (grids + self._grids(images.flip(3)).flip(3)) / 2
        around = F.avg_pool2d(grids, 3, 1, 1, count_include_pad=False) if self.smoothing else grids
        grids = torch.lerp(grids, around, self.smoothing)
        if not self.is_fitted or len(self.networks) == 1:
            return grids
        # Every network counts the same.
        width = grids.shape[1] // len(self.networks)
        grids = torch.cat([F.normalize(features, dim=1) for features in grids.split(width, 1)], 1)
        return torch.einsum("nchw,ce->nehw", grids, self.projection) if len(self.projection) else grids

    def _grids(self, images: Tensor) -> Tensor:
        grids = self.raw(images)
        if not self.is_fitted:
            return grids
        cells = normalized_layers(to_cells(grids), self.widths, self.mean) @ self.basis + self.offset
        shape = (len(grids), *self.trunks.grid, len(self.offset))
        return cells.view(shape).permute(0, 3, 1, 2)

    def with_options(self, *, flip_average: bool = False, smoothing: float = 0.0) -> MultiLayerFeatures:
        """Return the same that averages cells with those of the mirror image, and with those around, or does not."""
        other = copy.copy(self)
        other.flip_average, other.smoothing = flip_average, smoothing
        return other

    def projected(self, matrix: Tensor, prototypes: Tensor) -> MultiLayerFeatures:
        """Return the same with its features multiplied by a matrix ``(channels, e)``, and with other prototypes."""
        if len(self.networks) > 1:
            return self.with_state(self.mean, self.basis, self.offset, prototypes, matrix)
        return self.with_state(self.mean, self.basis @ matrix, self.offset @ matrix, prototypes)

    def with_state(
        self,
        mean: Tensor,
        basis: Tensor,
        offset: Tensor,
        prototypes: Tensor | None = None,
        projection: Tensor | None = None,
    ) -> MultiLayerFeatures:
        """Return the same layers with what was fitted."""
        if tuple(mean.shape) != (sum(self.widths),) or tuple(basis.shape) != (len(mean), len(offset)):
            raise ShapeError(
                f"a basis of shape {tuple(basis.shape)} for {sum(self.widths)} channels.",
                "Fit it on the same layers.",
            )
        prototypes = self.prototypes if prototypes is None else prototypes
        projection = self.projection if projection is None else projection
        fitted = copy.copy(self)
        fitted._buffers = {}  # not those of the original
        fitted._set(*(tensor.to(self.mean) for tensor in (mean, basis, offset, prototypes, projection)))
        return fitted

    def _set(self, *tensors: Tensor) -> None:
        for name, tensor in zip(STATE, tensors, strict=True):
            self.register_buffer(name, tensor)

    def fitted(self, cells: Tensor, components: int = COMPONENTS) -> MultiLayerFeatures:
        """Return the same layers centered and reduced to the principal components of cells ``(m, channels)``."""
        if len(cells) < 2:
            raise SettingError(f"{len(cells)} cells to fit on.", "Use more images.")
        mean = cells.mean(0)
        by_layer = normalized_layers(cells, self.widths, mean).split(self.widths, 1)
        by_network = [torch.cat([by_layer[layer] for layer in layers], 1) for layers in self.networks]
        count = min(components, len(cells), *(features.shape[1] for features in by_network))
        bases, means = zip(*(_components(features, count) for features in by_network), strict=True)
        basis = torch.block_diag(*bases)
        return self.with_state(mean, basis, -(torch.cat(means) @ basis))


def _components(cells: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the first principal components ``(channels, count)`` of cells, and their mean."""
    mean = cells.mean(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # components are found from random directions
        _, _, basis = torch.svd_lowrank(cells - mean, q=min(count + 32, *cells.shape), niter=3)
    return basis[:, :count].contiguous(), mean


def feature_extractor(
    model: nn.Module, layer: str | None, *, size: int | tuple[int, int] = 224
) -> LayerExtractor | MultiLayerFeatures:
    """Return a network up to a layer (the last grid if None), or several: ``"layer3+layer4.0"``."""
    if layer is not None and PLUS in layer:
        return MultiLayerFeatures(model, layer.split(PLUS), size=size)
    return LayerExtractor(model, layer, size=size)


def normalized_layers(cells: Tensor, widths: Sequence[int], mean: Tensor) -> Tensor:
    """Return cells ``(m, channels)`` with each layer's part centered and brought to length 1."""
    parts = (cells - mean).split(list(widths), 1)
    return torch.cat([F.normalize(part, dim=1) for part in parts], 1)


def sample_cells(grids: Iterable[Tensor], count: int, images: int) -> Tensor:
    """Return at most about `count` cells ``(m, channels)`` of grids ``(n, channels, h, w)``, evenly from all images."""
    sampled = []
    for batch in grids:
        cells = to_cells(batch)
        step = max(1, images * batch.shape[2] * batch.shape[3] // max(count, 1))
        sampled.append(cells[::step].clone())
    return torch.cat(sampled)


def nearest_similarity(cells: Tensor, prototypes: Tensor) -> Tensor:
    """Return the mean cosine of cells ``(m, e)`` with the nearest of the prototypes ``(k, e)``."""
    return (F.normalize(cells, dim=1) @ prototypes.to(cells).T).amax(1).mean()
