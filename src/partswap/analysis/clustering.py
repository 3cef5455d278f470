"""Do an auxiliary's cells fall into parts? K-means on the cells, a majority part per cluster, how often it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from partswap.data.base import Dataset
from partswap.data.geometry import on_canvas
from partswap.data.on_grid import CellFacts
from partswap.errors import SettingError
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.search.clusters import directions, fit_kmeans

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Images whose cells are read at once.
CHUNK = 64


@dataclass(frozen=True)
class Clusters:
    """Cells in clusters, which are named after parts."""

    #: ``(images, cells)``, the cluster of every cell.
    assigned: NDArray[np.int32]
    #: The part most of a cluster's keypoint cells hold; None for clusters without any.
    parts: list[str | None]
    #: How many cells of a cluster hold its part.
    support: list[int]
    #: How often a cell with a keypoint holds its cluster's part.
    accuracy: float


def cluster_parts(
    grids: Tensor | NDArray[Any], facts: Sequence[CellFacts], clusters: int, *, seed: int = 0
) -> Clusters:
    """Cluster the cells of all images (directions, as the cosine sees them) and name the clusters by keypoints.

    `grids` are the auxiliary's, ``(n, e, h, w)``; they may be memory-mapped and are read in chunks.
    """
    images, cells = len(grids), grids.shape[2] * grids.shape[3]
    model = fit_kmeans(grids, clusters, seed=seed, chunk=CHUNK)
    parts = [model.predict(directions(grids[start : start + CHUNK])) for start in range(0, images, CHUNK)]
    return name_clusters(np.concatenate(parts).reshape(images, cells).astype(np.int32), facts, clusters)


def name_clusters(assigned: NDArray[np.int32], facts: Sequence[CellFacts], clusters: int) -> Clusters:
    """Give each cluster the part that most of its keypoint cells hold, and count how often that is right."""
    votes: list[Counter[str]] = [Counter() for _ in range(clusters)]
    held = [
        (int(assigned[image, cell]), parts)
        for image, annotated in enumerate(facts)
        for cell, parts in enumerate(annotated.keypoints or ())
        if parts
    ]
    if not held:
        raise SettingError("no cell of these images holds a keypoint.", "Use a data set with keypoints.")
    for cluster, parts in held:
        votes[cluster].update(parts)
    # Of equally frequent parts the first by name, so that a run is repeatable.
    names = [min(v.items(), key=lambda item: (-item[1], item[0]))[0] if v else None for v in votes]
    support = [0] * clusters
    for cluster, parts in held:
        support[cluster] += names[cluster] in parts
    return Clusters(assigned, names, support, sum(support) / len(held))


def draw_clusters(
    data: Dataset, preprocess: Preprocess, clusters: Clusters, grid: GridShape, *, rows: int = 6, columns: int = 8
) -> Figure:
    """Draw the clusters with most keypoints: images with the cells of the cluster lit and the rest dimmed."""
    from matplotlib.figure import Figure

    # One row per part, those that explain most keypoints first; large clusters are often background.
    best: dict[str, int] = {}
    for k in sorted(range(len(clusters.parts)), key=lambda k: -clusters.support[k]):
        part = clusters.parts[k]
        if part is not None:
            best.setdefault(part, k)
    largest = list(best.items())[:rows]
    figure = Figure(figsize=(1.25 * columns + 1.1, 1.25 * len(largest)), layout="constrained")
    axes = figure.subplots(len(largest), columns, squeeze=False)
    for row, (part, k) in enumerate(largest):
        images = np.flatnonzero((clusters.assigned == k).any(1))
        images = images[np.linspace(0, len(images) - 1, min(columns, len(images))).astype(int)]
        for column in range(columns):
            axis = axes[row, column]
            axis.set(xticks=[], yticks=[], frame_on=False)
            if column < len(images):
                canvas = on_canvas(data[int(images[column])], preprocess).image
                axis.imshow(lit(canvas, (clusters.assigned[images[column]] == k).reshape(grid)))
        axes[row, 0].set_ylabel(part, rotation=0, ha="right", va="center", fontsize=11)
    return figure


def lit(image: Image.Image, inside: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the image, grey and pale but for the cells inside."""
    canvas = np.asarray(image, np.float32)
    rows, columns = (np.arange(n) * cells // n for n, cells in zip(canvas.shape, inside.shape, strict=False))
    dimmed = 0.4 * canvas.mean(2, keepdims=True) + 135
    return np.where(inside[rows][:, columns][..., None], canvas, dimmed).clip(0, 255).astype(np.uint8)
