"""Clusters of auxiliary cells, by direction: fitted on a whole data set, or on the cells of one explanation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from partswap.errors import SettingError, ShapeError

#: K-means sees at most this many cells of a data set; all of them are assigned afterwards.
FITTED = 50_000
#: Steps of k-means, at most; later ones move few cells.
ROUNDS = 30


def fit_kmeans(grids: Tensor | NDArray[Any], clusters: int, *, seed: int = 0, chunk: int = 64) -> Any:
    """Return scikit-learn's k-means of the directions of the cells of ``(n, e, h, w)`` grids, read in chunks."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    images, cells = len(grids), grids.shape[2] * grids.shape[3]
    if images * cells < clusters:
        raise SettingError(
            f"{images * cells} cells cannot make {clusters} clusters.", "Use more images or fewer clusters."
        )
    rng = np.random.default_rng(seed)
    share = min(1.0, FITTED / (images * cells))
    chosen = []
    for start in range(0, images, chunk):
        block = directions(grids[start : start + chunk])
        chosen.append(block if share == 1 else block[rng.random(len(block)) < share])
    # All rows at every step: on small batches the result moves more with the seed.
    model = KMeans(clusters, random_state=seed, n_init=1, max_iter=ROUNDS, algorithm="lloyd")
    with threadpool_limits(1, "openmp"):  # several threads add up in any order
        return model.fit(np.concatenate(chosen))


def fit_centroids(aux_grids: Tensor | NDArray[Any], clusters: int = 50, *, seed: int = 0) -> Tensor:
    """Return the centroids of a data set's auxiliary cells, ``(clusters, e)`` of length 1, for the hard constraint."""
    centres = np.asarray(fit_kmeans(aux_grids, clusters, seed=seed).cluster_centers_, np.float32)
    return F.normalize(torch.from_numpy(centres), dim=1)


def directions(grids: Tensor | NDArray[Any]) -> NDArray[np.float32]:
    """Return the cells of grids as rows of length 1."""
    rows = np.moveaxis(np.asarray(grids, np.float32), 1, -1).reshape(-1, grids.shape[1])
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), np.float32)


def nearest(cells: Tensor, centroids: Tensor) -> Tensor:
    """Return the number of the centroid nearest by cosine for each cell ``(m, e)``; ties go to the lowest."""
    if centroids.ndim != 2 or centroids.shape[1] != cells.shape[1]:
        raise ShapeError(
            f"centroids have shape {tuple(centroids.shape)}, cells have {cells.shape[1]} channels.",
            "Fit them on grids of the same auxiliary and layer.",
        )
    to = F.normalize(centroids.to(cells), dim=1)
    return (F.normalize(cells, dim=1) @ to.T).argmax(1)


def kmeans_labels(cells: Tensor, clusters: int, seed: int) -> Tensor:
    """Return the cluster of each cell ``(m, e)`` when these alone are clustered."""
    from sklearn.cluster import KMeans

    rows = F.normalize(cells, dim=1).cpu().numpy()
    # Cells may repeat (flat background); more clusters than different cells cannot be.
    count = min(clusters, len(np.unique(rows, axis=0)))
    labels = KMeans(count, n_init=1, random_state=seed).fit(rows).labels_
    return torch.from_numpy(labels.astype(np.int64)).to(cells.device)
