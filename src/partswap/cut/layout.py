"""How a layer's raw output holds a grid: channels first, channels last, or tokens after prefix tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from partswap.errors import LayerError, ShapeError
from partswap.grid import FeatureGrids, GridShape

# Class token, distillation token and registers: no common network has more of them.
MAX_PREFIX = 8


@dataclass(frozen=True)
class Layout:
    """Where the grid is in a raw output; tokens are ``(n, prefix + h * w, d)`` in row-major order."""

    kind: Literal["nchw", "nhwc", "tokens"]  #: order of the axes
    grid: GridShape
    channels: int
    prefix: int = 0  #: tokens before the first cell

    def to_grid(self, raw: Tensor) -> FeatureGrids:
        """Return the grids of a raw output; prefix tokens are their context."""
        if self.kind == "nchw":
            return FeatureGrids(raw)
        if self.kind == "nhwc":
            return FeatureGrids(raw.permute(0, 3, 1, 2).contiguous())
        if raw.shape[1] != self.prefix + self.grid.cells:
            raise ShapeError(
                f"these images give {raw.shape[1]} tokens, not {self.prefix} + {self.grid.cells}.",
                "Cut the model again with `probe` a batch of images of this size.",
            )
        cells = raw[:, self.prefix :].transpose(1, 2).reshape(len(raw), -1, *self.grid)
        return FeatureGrids(cells, raw[:, : self.prefix] if self.prefix else None)

    def to_raw(self, grid: Any, context: Any = None) -> Any:
        """Undo `to_grid`; takes tensors, or fx proxies to record the same steps in a graph."""
        if self.kind == "nchw":
            return grid
        if self.kind == "nhwc":
            return grid.permute(0, 2, 3, 1)
        tokens = grid.flatten(2).transpose(1, 2)
        return torch.cat([context, tokens], 1) if self.prefix else tokens


def find_layout(
    shape: Sequence[int],
    layer: str,
    image: tuple[int, int, int],
    *,
    model: nn.Module,
    hints: Sequence[tuple[int, int]] = (),
    wider: Callable[[], Sequence[int] | None] = lambda: None,
) -> Layout:
    """Tell how a raw output of `shape` (empty if it is no tensor) holds a grid.

    `image` is images, height and width of the probe. Some models say how many prefix tokens they have, or that they are
    channels-last. `hints` are the grids seen earlier in the network, latest last; a token sequence is one of them,
    flattened. `wider` returns the shape that a wider image gives (None if the model refuses one); asked only in doubt.
    """
    if not shape:
        raise LayerError(f"layer {layer!r} returns no tensor.", "Choose another; {list_layers} shows them.")
    batch, *size = image
    if len(shape) not in (3, 4) or shape[0] != batch:
        raise LayerError(
            f"the output of layer {layer!r} has shape {tuple(shape)} for {batch} images: that is no grid.",
            "Choose a layer before pooling or flattening; {list_layers} shows them.",
        )
    if len(shape) == 3:
        layout = _tokens(shape, layer, size, model, hints)
    else:
        layout = _four_axes(shape, size, model, wider)
        finest = max(hints, key=lambda grid: grid[0] * grid[1], default=(size[0], size[1]))
        (h, w), wide = layout.grid, size[1] / size[0]
        stretched = _misfit((h, w), size) > 0.5 and abs(h * wide - w) > 1 and abs(w / wide - h) > 1
        if h > finest[0] or w > finest[1] or stretched:  # windows, attention heads
            raise LayerError(
                f"the output of layer {layer!r} has shape {tuple(shape)}: no two of its axes are those of the image.",
                "Choose another layer; {list_layers} shows them.",
            )
    if layout.grid.cells == 1:
        raise LayerError(
            f"the output of layer {layer!r} is a 1 x 1 grid: there is only one cell to swap.",
            "Choose an earlier layer ({list_layers} shows them) or use larger images.",
        )
    return layout


def _four_axes(
    shape: Sequence[int], image: Sequence[int], model: nn.Module, wider: Callable[[], Sequence[int] | None]
) -> Layout:
    _, a, b, c = shape
    first, last = (Layout("nchw", GridShape(b, c), a), Layout("nhwc", GridShape(a, b), c))
    # A grid has the proportions of the image; the two spatial axes are the pair that does.
    misfit_first, misfit_last = _misfit((b, c), image), _misfit((a, b), image)
    if misfit_first != misfit_last:
        return first if misfit_first < misfit_last else last
    # As many channels as rows and columns. Only the width may change when the image gets wider.
    moved = wider()
    if moved is not None and len(moved) == 4 and (moved[3] == c) != (moved[2] == b):
        return first if moved[3] != c else last
    return last if str(getattr(model, "output_fmt", "")).upper().endswith("NHWC") else first


def _misfit(grid: tuple[int, int], image: Sequence[int]) -> float:
    return abs(math.log((grid[0] * image[1]) / (grid[1] * image[0])))


def _tokens(
    shape: Sequence[int], layer: str, image: Sequence[int], model: nn.Module, hints: Sequence[tuple[int, int]]
) -> Layout:
    _, tokens, channels = shape
    prefixes = list(range(MAX_PREFIX + 1))
    declared = getattr(model, "num_prefix_tokens", None)
    if isinstance(declared, int):  # its own word first; a patch embedding has no prefix yet
        prefixes = list(dict.fromkeys([declared, *prefixes]))
    # The convolution that made the patches knows the grid best, and the square is the guess of last resort.
    for known in (list(hints)[::-1], None):
        for prefix in prefixes:
            cells = tokens - prefix
            if cells < 1 or channels == 1:  # one channel: features that were pooled over the tokens
                continue
            for h, w in known if known is not None else _proportional(cells, image):
                if h * w == cells:
                    return Layout("tokens", GridShape(h, w), channels, prefix)
    raise LayerError(
        f"the {tokens} tokens of layer {layer!r} are not a grid plus at most {MAX_PREFIX} prefix tokens.",
        "Choose another layer; {list_layers} shows them.",
    )


def _proportional(cells: int, image: Sequence[int]) -> list[tuple[int, int]]:
    """Return the one factorisation of `cells` that has the image's proportions, if there is one."""
    h = round(math.sqrt(cells * image[0] / image[1]))
    return [(h, cells // h)] if h and cells % h == 0 and _misfit((h, cells // h), image) < 0.1 else []
