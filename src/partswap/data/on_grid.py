"""Annotations on the grid: what each cell of an image holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partswap.data.base import Sample
from partswap.grid import GridShape

#: A cell shows a part when the part covers at least this much of it; less is a sliver.
SHOWS = 0.05


@dataclass(frozen=True)
class CellFacts:
    """What the cells of one image hold, by flat cell index."""

    #: Parts with a visible keypoint in the cell, None if there are no keypoints for this image.
    keypoints: tuple[frozenset[str], ...] | None
    #: Parts that can be seen in the cell (by mask or keypoint), None if the data set has no part masks.
    shows: tuple[frozenset[str], ...] | None
    #: Whether the object's mask reaches into the cell, None without a mask.
    object: tuple[bool, ...] | None


def cell_facts(sample: Sample, grid: GridShape) -> CellFacts:
    """Return what each cell of an image holds.

    The grid lies on the whole image, so the sample must be what the model sees: resized and cropped, with its
    annotations.
    """
    held: list[set[str]] = [set() for _ in range(grid.cells)]
    for part, points in (sample.keypoints or {}).items():
        for x, y in points:
            cell = grid.cell_at(x, y, sample.image.size)
            if cell is not None:
                held[cell].add(part)
    keypoints = tuple(map(frozenset, held))
    for part, mask in sample.part_masks.items():
        for shown in np.flatnonzero(cell_share(mask, grid) >= SHOWS).tolist():
            held[shown].add(part)
    return CellFacts(
        keypoints if sample.keypoints is not None else None,
        tuple(map(frozenset, held)) if sample.part_masks else None,
        None if sample.mask is None else tuple((cell_share(sample.mask, grid) > 0).tolist()),
    )


def cell_share(mask: NDArray[np.bool_], grid: GridShape) -> NDArray[np.float64]:
    """Return the share of each cell that a ``(height, width)`` mask covers, ``(cells,)``."""
    height, width = mask.shape
    rows = np.arange(height) * grid.h // height
    cols = np.arange(width) * grid.w // width
    cells = (rows[:, None] * grid.w + cols[None, :]).ravel()
    covered = np.bincount(cells, weights=mask.ravel(), minlength=grid.cells)
    return np.asarray(covered / np.bincount(cells, minlength=grid.cells))
