"""Which parts the cells of an image show: by a detector that learned them, or by clusters that a person has named.

Both read a grid: a detector's channels are parts, the cells of an auxiliary belong to clusters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from PIL.Image import Image
from torch import Tensor

from partswap.errors import FileFormatError, SettingError, ShapeError
from partswap.grid import GridShape, resize_grid
from partswap.models.auxiliaries import Auxiliary, load_auxiliary
from partswap.models.auxiliaries.base import AuxiliaryChoice
from partswap.models.parts import load_detector
from partswap.utils.files import write_json

#: Parts of a cell that count, as in the paper.
TOP = 3
SCHEMA = "partswap.named_clusters"

#: The parts a cell shows, the surest first.
Shown = tuple[str, ...]


@dataclass(frozen=True)
class PartReader:
    """Tells the parts of cells from the grids of an auxiliary: of its channels, or of the clusters of its cells."""

    auxiliary: Auxiliary  #: what gives the grids
    parts: Sequence[str | None]  #: of every channel, or cluster; None: no part (background)
    centroids: Tensor | None = None  #: directions of the clusters, ``(clusters, e)``; None: channels are parts

    def read(self, grids: Tensor, grid: GridShape) -> list[list[Shown]]:
        """Return what every cell of every image shows, by grids ``(n, e, h, w)`` of the auxiliary."""
        cells = resize_grid(grids.float(), grid).flatten(2).transpose(1, 2)
        if self.centroids is not None:
            if self.centroids.shape[1] != cells.shape[2]:
                raise ShapeError(
                    f"clusters of {self.centroids.shape[1]} channels, and an auxiliary of {cells.shape[2]}.",
                    "Use the auxiliary whose clusters were named.",
                )
            cells = F.normalize(cells, dim=2) @ self.centroids.to(cells).T
        order = cells.argsort(dim=2, descending=True, stable=True).tolist()
        return [[self._surest(ranks) for ranks in image] for image in order]

    def of_images(self, canvases: Sequence[Image], grid: GridShape) -> list[list[Shown]]:
        """Return the same of images as the classifier sees them."""
        return self.read(self.auxiliary.grids(canvases), grid)

    def _surest(self, ranks: Sequence[int]) -> Shown:
        if self.centroids is not None and self.parts[ranks[0]] is None:
            return ()  # the cell is background, whatever comes next
        named = dict.fromkeys(part for k in ranks if (part := self.parts[k]) is not None)
        return tuple(named)[:TOP]

    @property
    def names(self) -> set[str]:
        """The parts it knows."""
        return {part for part in self.parts if part is not None}


def open_parts(place: str | Path) -> PartReader:
    """Return what tells parts, from the folder of a detector or the file of named clusters."""
    path = Path(place)
    if path.is_dir():
        detector = load_detector(path)
        return PartReader(Auxiliary("parts", detector.model, detector.preprocess), list(detector.parts))
    if path.suffix == ".json" and path.is_file():
        return load_named(path)
    raise SettingError(
        f"{place} is neither a parts detector nor named clusters.",
        "Train a detector (partswap train parts), or name clusters (partswap parts name).",
    )


def save_named(path: Path, auxiliary: AuxiliaryChoice, centroids: Tensor, names: Sequence[str | None]) -> None:
    """Write named clusters as JSON."""
    clusters = [
        {"name": name, "centroid": [round(x, 6) for x in row]}
        for name, row in zip(names, centroids.tolist(), strict=True)
    ]
    content = {"schema": SCHEMA, "version": 1, "auxiliary": str(auxiliary), "clusters": clusters}
    write_json(path, content, place="out")


def read_named(path: Path) -> tuple[AuxiliaryChoice, Tensor, list[str | None]]:
    """Return the auxiliary, the centroids and the names that `save_named` wrote."""
    try:
        content: Any = json.loads(path.read_text("utf-8"))
        if content["schema"] != SCHEMA or content["version"] != 1:
            raise KeyError("schema")
        centroids = torch.tensor([cluster["centroid"] for cluster in content["clusters"]], dtype=torch.float32)
        names = [cluster["name"] for cluster in content["clusters"]]
        choice = AuxiliaryChoice.parse(content["auxiliary"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{path} does not hold named clusters ({error}).", "Make it with partswap parts name."
        ) from error
    if centroids.ndim != 2 or not all(name is None or (isinstance(name, str) and name) for name in names):
        raise FileFormatError(f"{path} does not hold named clusters.", "Make it with partswap parts name.")
    return choice, centroids, names


def load_named(path: Path) -> PartReader:
    """Return named clusters with their auxiliary."""
    choice, centroids, names = read_named(path)
    if not any(names):
        raise SettingError(f"no cluster in {path} has a name.", "Name some: partswap parts name.")
    return PartReader(load_auxiliary(str(choice)), names, centroids)
