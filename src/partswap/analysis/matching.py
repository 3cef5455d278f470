"""Does an auxiliary match part with part? Best matches among images of like classes, and clusters of cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from partswap.analysis.clustering import cluster_parts
from partswap.data.base import Dataset
from partswap.data.on_grid import CellFacts
from partswap.errors import SettingError
from partswap.features.encode import auxiliary_features
from partswap.models.auxiliaries.base import Auxiliary
from partswap.models.auxiliaries.trained import TrainedAuxiliary
from partswap.runs.tasks import AnnotationCache
from partswap.training.auxiliary import view_of
from partswap.utils.files import write_json
from partswap.utils.progress import Track, no_progress
from partswap.utils.tables import ResultTable

#: Numbers of clusters, as in the paper.
CLUSTERS = (15, 50, 250)
#: How many images are matched, and with how many others each.
QUERIES, OTHERS = 400, 20
#: How many times cells are clustered, with seeds from 0 on; one alone is off by two points at K = 50.
TIMES = 10


def match_parts(grids: Tensor, facts: Sequence[CellFacts], labels: Any, *, seed: int = 0) -> tuple[float, float]:
    """Return how often best matches are right, and the mass on right ones, of grids ``(n, e, h, w)``.

    Each of some images is matched with images of one other class: that whose mean image is most like its own class's.
    """
    cells = F.normalize(grids.float().flatten(2).transpose(1, 2), dim=2)
    names = sorted({part for annotated in facts for held in annotated.keypoints or () for part in held})
    if not names:
        raise SettingError("no cell of these images holds a keypoint.", "Use a data set with keypoints.")
    held = torch.zeros(len(cells), cells.shape[1], len(names))
    for image, annotated in enumerate(facts):
        for cell, parts in enumerate(annotated.keypoints or ()):
            for part in parts:
                held[image, cell, names.index(part)] = 1
    labels, near = np.asarray(labels), _nearest_class(cells, np.asarray(labels))
    rng = np.random.default_rng(seed)
    right = mass = count = 0.0
    for query in rng.permutation(len(cells))[:QUERIES].tolist():
        others = rng.permutation(np.flatnonzero(labels == near[int(labels[query])]))[:OTHERS]
        at = torch.from_numpy(others)
        query_parts = held[query].any(1)
        cosine = cells[query][query_parts] @ cells[at].flatten(0, 1).T
        same = held[query][query_parts] @ held[at].flatten(0, 1).T > 0
        right += float(same.gather(1, cosine.argmax(1, keepdim=True)).sum())
        mass += float((F.softmax(cosine / 0.1, 1) * same).sum())
        count += len(cosine)
    return right / max(count, 1), mass / max(count, 1)


def _nearest_class(cells: Tensor, labels: Any) -> dict[int, int]:
    """Return, for every class, the other one whose mean image is most like its own; its own if there is one only."""
    classes = sorted(set(labels.tolist()))
    means = torch.stack([cells[torch.from_numpy(np.flatnonzero(labels == c))].mean((0, 1)) for c in classes])
    likeness = F.normalize(means - means.mean(0), dim=1) @ F.normalize(means - means.mean(0), dim=1).T
    likeness.fill_diagonal_(-torch.inf if len(classes) > 1 else 0.0)
    return {c: classes[int(likeness[k].argmax())] for k, c in enumerate(classes)}


def measure_auxiliary(
    learned: TrainedAuxiliary,
    data: Dataset,
    out: Path,
    *,
    cache: Path | None = None,
    precision: str = "float32",
    track: Track = no_progress,
) -> ResultTable:
    """Return matching and clustering of a trained auxiliary on images with keypoints, and keep it as ``parts.json``."""
    view = view_of(learned)
    auxiliary = Auxiliary(out.name, learned.model, learned.preprocess)
    grid = learned.model.trunks.grid
    grids = auxiliary_features(data, auxiliary, view, grid, cache=cache, precision=precision, track=track)
    annotations = AnnotationCache(data, view, grid)
    facts = [annotations[i] for i in range(len(data))]
    right, mass = match_parts(torch.from_numpy(np.array(grids)), facts, data.labels())
    clusters = {
        str(k): float(np.mean([cluster_parts(grids, facts, k, seed=seed).accuracy for seed in range(TIMES)]))
        for k in CLUSTERS if k <= len(data) * grid.cells
    }  # fmt: skip
    content = {"images": len(data), "right": right, "mass": mass, "clustering": clusters}
    write_json(out / "parts.json", content, place="out")
    rows = [("best match holds the same part", right), ("softmax on the same part", mass)]
    rows += [(f"{k} clusters: cells that hold their cluster's part", share) for k, share in clusters.items()]
    title = f"{out} on {len(data)} images it was not trained on" if data.split != "train" else str(out)
    return ResultTable(title, ["by keypoints", "%"], [[text, 100 * share] for text, share in rows])
