"""Where the model looks in an image: the part it sees, and the pixels of the image that a cell stands for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partswap.grid import GridShape

#: Left, top, right, bottom, in pixels of an image, counted from its top left corner.
PixelBox = tuple[float, float, float, float]


@dataclass(frozen=True)
class Frame:
    """Which part of an image the model sees."""

    size: tuple[int, int]  #: width and height of the image
    box: PixelBox  #: of that part

    @classmethod
    def whole(cls, size: tuple[int, int]) -> Frame:
        """Return the frame of an image that the model sees all of."""
        return cls(size, (0.0, 0.0, float(size[0]), float(size[1])))

    def cell_box(self, grid: GridShape, cell: int) -> PixelBox:
        """Return the box of a cell, cut off at the borders of the image (a crop may be larger than it)."""
        left, top, right, bottom = self.box
        x1, y1, x2, y2 = grid.box(cell, (1, 1))
        across, down = right - left, bottom - top
        width, height = self.size
        horizontal = (min(max(left + x * across, 0.0), width) for x in (x1, x2))
        vertical = (min(max(top + y * down, 0.0), height) for y in (y1, y2))
        (x1, x2), (y1, y2) = horizontal, vertical
        return x1, y1, x2, y2

    def mask(self, boxes: Iterable[PixelBox]) -> NDArray[np.bool_]:
        """Return ``(height, width)``, True for the pixels whose center lies in one of the boxes."""
        width, height = self.size
        x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
        inside = np.zeros((height, width), bool)
        for left, top, right, bottom in boxes:
            inside |= ((top <= y) & (y < bottom))[:, None] & ((left <= x) & (x < right))
        return inside
