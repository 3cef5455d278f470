"""Maps for figures: what swapping each cell promises, and which cells look like the same part."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from partswap.errors import SettingError
from partswap.evaluators import HeadPlan
from partswap.grid import FeatureGrids, HeatMap, to_cells
from partswap.search.clusters import kmeans_labels
from partswap.search.methods.scout import Scout
from partswap.search.problem import Problem


def heat_maps(head: HeadPlan, problem: Problem, distractor: int) -> dict[str, HeatMap]:
    """Return maps by name: the best first-order gain of each query cell, and SCOUT's of query and distractor."""
    settings = Scout()
    with torch.inference_mode(False), torch.no_grad():
        evaluator, target, _ = problem.setup(head, settings.memory_mb)
        gain = next(iter(evaluator.gains(evaluator.start, target, margins=False))).score.amax(1).view(*problem.shape)
    query = FeatureGrids(problem.query[None], problem.context)
    query_map, distractor_map = settings.maps(head, query, problem.distractors[distractor], target)
    return {
        "best gain of swapping a cell": HeatMap(gain.cpu().numpy()),
        "SCOUT, query": HeatMap(query_map.cpu().numpy()),
        "SCOUT, distractor": HeatMap(distractor_map.cpu().numpy(), "distractor"),
    }


def cluster_labels(problem: Problem, count: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Return the cluster of each cell of query and distractors, ``(1 + n, h, w)``, of the auxiliary's features."""
    if problem.aux is None:
        raise SettingError("clusters need an auxiliary.", "Give the explainer one.")
    if count < 1:
        raise SettingError(f"there are to be {count} clusters.", "Use 1 or more; 8 is usual.")
    cells = torch.cat([to_cells(grids) for grids in problem.aux])
    labels: NDArray[np.int64] = kmeans_labels(cells, count, seed).cpu().numpy()
    return labels.reshape(-1, *problem.shape)
