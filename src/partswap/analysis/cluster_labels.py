"""Clusters of an auxiliary's cells as pictures, for a person to name: what a word is for, on images of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from partswap.analysis.clustering import lit
from partswap.data.base import Dataset
from partswap.errors import SettingError
from partswap.features.encode import auxiliary_features
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries import load_auxiliary
from partswap.models.auxiliaries.base import AuxiliaryChoice
from partswap.search.clusters import fit_centroids
from partswap.utils.files import write_with
from partswap.utils.progress import Track, no_progress, step
from partswap.words.parts import read_named, save_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Images whose cells are read at once.
CHUNK = 64


class ClusterLabeler:
    """Clusters of a data set's cells, to be named.

    Parameters
    ----------
    data : Dataset
        The images.
    auxiliary : str
        Whose cells are clustered, as on the command line.
    clusters : int
        How many.
    """

    def __init__(
        self,
        data: Dataset,
        auxiliary: str,
        clusters: int,
        *,
        cache: Path | None = None,
        precision: str = "float32",
        track: Track = no_progress,
    ) -> None:
        self.data, self.choice = data, AuxiliaryChoice.parse(auxiliary)
        opened = load_auxiliary(auxiliary)
        if opened.widths:
            raise SettingError(
                f"{auxiliary} is several layers, which are fitted anew to every set of images.",
                "Train an auxiliary on these images (partswap train auxiliary), or name one layer.",
            )
        view: Preprocess = opened.preprocess
        self.view = view
        sample = opened.grids([view.crop(data.image(0))])
        self.grid = GridShape(*sample.shape[2:])
        self.grids = auxiliary_features(data, opened, view, self.grid, cache=cache, precision=precision, track=track)
        with step(track, "clusters"):
            self.centroids: Tensor = fit_centroids(self.grids, clusters)
        cosines = torch.cat([self._cosines(start) for start in range(0, len(self.grids), CHUNK)])
        #: The cluster of every cell, ``(images, cells)``.
        self.assigned: NDArray[np.int64] = cosines.argmax(2).numpy()
        #: How typical the most typical cell of an image is of every cluster, ``(images, clusters)``.
        self.typical: NDArray[np.float32] = cosines.amax(1).numpy()

    def _cosines(self, start: int) -> Tensor:
        cells = torch.from_numpy(np.array(self.grids[start : start + CHUNK], np.float32)).flatten(2).transpose(1, 2)
        return F.normalize(cells, dim=2) @ self.centroids.T

    def draw(self, names: Sequence[str | None], *, columns: int = 8) -> Figure:
        """Draw a row of images per cluster, its cells lit and the rest dimmed."""
        from matplotlib.figure import Figure

        count = len(self.centroids)
        figure = Figure(figsize=(1.2 * columns + 1.6, 1.2 * count), layout="constrained")
        axes = figure.subplots(count, columns, squeeze=False)
        for cluster in range(count):
            there = (self.assigned == cluster).any(1)
            images = [i for i in np.argsort(-self.typical[:, cluster], kind="stable").tolist() if there[i]]
            for column in range(columns):
                axis = axes[cluster, column]
                axis.set(xticks=[], yticks=[], frame_on=False)
                if column < len(images):
                    canvas = self.view.crop(self.data.image(images[column]))
                    axis.imshow(lit(canvas, (self.assigned[images[column]] == cluster).reshape(self.grid)))
            name = names[cluster] or ""
            axes[cluster, 0].set_ylabel(f"{cluster}  {name}", rotation=0, ha="right", va="center", fontsize=11)
        return figure

    def plot(self, names: Sequence[str | None], path: Path) -> None:
        """Draw them into a PNG file."""
        write_with(path, partial(self.draw(names).savefig, format="png", dpi=110), place="out")

    def save(self, path: Path, names: Sequence[str | None]) -> None:
        """Write the clusters with their names."""
        save_named(path, self.choice, self.centroids, names)

    def known(self, path: Path) -> list[str | None]:
        """Return the names that a file of these very clusters already holds; nothing if there is no file."""
        if not path.exists():
            return [None] * len(self.centroids)
        choice, centroids, names = read_named(path)
        if choice != self.choice or not _same(centroids, self.centroids):
            raise SettingError(f"{path} holds names of other clusters.", "Choose another file ({out}), or delete it.")
        return names


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, atol=1e-4))
