"""The grid: cells, their flat indices, the pixels they cover, and the checks every grid passes.

A grid is a ``(d, h, w)`` tensor. Cell ``row * w + col`` is one position of it. Several distractors are one
``(n, d, h, w)`` tensor whose cells are numbered ``image * h * w + row * w + col``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from partswap.errors import NonFiniteError, ShapeError


class GridShape(NamedTuple):
    """Height and width of a grid, in cells."""

    h: int
    w: int

    @property
    def cells(self) -> int:
        """How many cells the grid has."""
        return self.h * self.w

    def row_col(self, cell: int) -> tuple[int, int]:
        """Return the row and column of a flat cell index."""
        return divmod(cell, self.w)

    def place(self, cell: int) -> str:
        """Return where a cell is, for people: rows and columns count from 1 (indices in data count from 0).

        Examples
        --------
        >>> GridShape(7, 7).place(10)
        'row 2, column 4'
        """
        row, col = self.row_col(cell)
        return f"row {row + 1}, column {col + 1}"

    def split(self, distractor_cell: int) -> tuple[int, int]:
        """Return the image, and the flat index within it, of a flat index over several distractors."""
        return divmod(distractor_cell, self.cells)

    def locate(self, distractor_cell: int) -> tuple[int, int, int]:
        """Return ``(image, row, col)`` of a flat index over several distractors."""
        image, cell = self.split(distractor_cell)
        return (image, *self.row_col(cell))

    def box(self, cell: int, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return ``(left, top, right, bottom)`` of a cell on a canvas of ``size = (width, height)`` pixels."""
        row, col = self.row_col(cell)
        width, height = size
        left, right = (c * width / self.w for c in (col, col + 1))
        top, bottom = (r * height / self.h for r in (row, row + 1))
        return left, top, right, bottom

    def cell_at(self, x: float, y: float, size: tuple[int, int]) -> int | None:
        """Return the cell that holds pixel ``(x, y)`` of a ``(width, height)`` canvas, None if outside it."""
        width, height = size
        if not (0 <= x < width and 0 <= y < height):
            return None
        return int(y * self.h / height) * self.w + int(x * self.w / width)

    def __str__(self) -> str:
        return f"{self.h} x {self.w}"


class FeatureGrids(NamedTuple):
    """What a network makes of images at the layer where it is cut.

    The context is what it keeps besides the cells (class token, registers); it stays with its image.
    """

    values: Tensor  #: the grids, ``(n, d, h, w)``
    context: Tensor | None = None  #: ``(n, tokens, d)``

    def at(self, indices: Sequence[int]) -> FeatureGrids:
        """Return those of some of the images."""
        rows = list(indices)
        return FeatureGrids(self.values[rows], None if self.context is None else self.context[rows])


class HeatMap(NamedTuple):
    """One number per cell of the query, or of a distractor."""

    values: NDArray[Any]  #: ``(h, w)``
    of: Literal["query", "distractor"] = "query"  #: whose cells they are


def to_cells(grid: Tensor) -> Tensor:
    """Return a ``(d, h, w)`` or ``(n, d, h, w)`` grid as cells, ``(h*w, d)`` or ``(n*h*w, d)``."""
    if grid.ndim == 3:
        return grid.flatten(1).T
    return grid.flatten(2).transpose(1, 2).reshape(-1, grid.shape[1])


def resize_grid(grids: Tensor, shape: GridShape) -> Tensor:
    """Resize ``(n, d, h, w)`` grids to `shape`: area average when shrinking, bilinear when growing."""
    if tuple(grids.shape[-2:]) == tuple(shape):
        return grids
    if grids.shape[-2] >= shape.h and grids.shape[-1] >= shape.w:
        return F.adaptive_avg_pool2d(grids, (shape.h, shape.w))
    return F.interpolate(grids, size=(shape.h, shape.w), mode="bilinear", align_corners=False)


def check_grid(grid: Tensor, name: str, *, ndim: int) -> Tensor:
    """Return `grid` in float32 after checking that it is a finite, non-empty grid of `ndim` dimensions."""
    layout = "(channels, height, width)" if ndim == 3 else "(images, channels, height, width)"
    if not isinstance(grid, Tensor):
        raise ShapeError(f"{name} is a {type(grid).__name__}.", f"Pass a torch tensor of shape {layout}.")
    if grid.ndim != ndim or 0 in grid.shape[-3:]:
        raise ShapeError(f"{name} has shape {tuple(grid.shape)}.", f"Pass a tensor of shape {layout}.")
    if not bool(torch.isfinite(grid).all()):
        bad = int((~torch.isfinite(grid)).sum())
        raise NonFiniteError(
            f"{name} holds {bad} NaN or infinite values.",
            "Check the input image's normalisation and the model's weights (a diverged training gives these).",
        )
    return grid.float()
