"""The hard constraint of Vandenhende et al. 2022 (supplement): swaps only within a cluster of auxiliary cells."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from partswap.errors import SettingError, ShapeError
from partswap.grid import GridShape, check_grid, resize_grid, to_cells
from partswap.search.candidates import same_label, shared_part
from partswap.search.inputs import check_grids
from partswap.search.methods.base import METHODS, CellParts, Method


@METHODS.register("hard")
@dataclass(frozen=True)
class Hard(Method):
    """The paper's greedy search among swaps within a cluster, or within an annotated part: an upper bound.

    Attributes
    ----------
    by : {"clusters", "parts"}
        What the two cells of a swap must share. Cells that hold no part cannot be swapped by parts.
    clusters : int
        How many clusters to make where there are no `centroids`.
    centroids : Tensor or None
        ``(clusters, e)``, fitted on a data set (`search.clusters.fit_centroids`); a cell belongs to the nearest
        by cosine. None clusters the cells of each query and its distractors alone.
    seed : int
        For that clustering.
    relax : bool
        Whether to go on with forbidden swaps when the allowed ones have run out without a flip. How many edits broke
        the constraint is in the counterfactual's ``source["outside"]``.
    """

    name: ClassVar[str] = "hard"
    title: ClassVar[str] = "hard constraint"
    semantic: ClassVar[bool] = True
    distractors: ClassVar[int | None] = None

    by: Literal["clusters", "parts"] = "clusters"
    clusters: int = 50
    centroids: Tensor | None = field(default=None, compare=False)
    seed: int = 0
    relax: bool = True
    screen: int | Literal["auto"] | None = "auto"
    max_edits: int | None = None
    memory_mb: float = 1024

    def __post_init__(self) -> None:
        if self.by not in ("clusters", "parts"):
            raise SettingError(f"by is {self.by!r}.", "Use 'clusters' or 'parts'.")
        if self.clusters < 1:
            raise SettingError(f"clusters is {self.clusters}.", "Use at least 1; the paper's is 50.")

    def __repr__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.centroids is not None:  # thousands of numbers otherwise
            shown["centroids"] = f"<{' x '.join(map(str, self.centroids.shape))}>"
        return f"Hard({', '.join(f'{k}={v!r}' if k != 'centroids' else f'{k}={v}' for k, v in shown.items())})"

    @property
    def wants_parts(self) -> bool:
        """Whether it must be told which parts the cells hold."""
        return self.by == "parts"

    def settings(self) -> dict[str, Any]:
        """Return the settings of the search."""
        return {
            "lam": 0.0,
            "objective": "paper",
            "beam": 1,
            "screen": self.screen,
            "max_edits": self.max_edits,
            "memory_mb": self.memory_mb,
            "relax": self.relax,
        }

    def recorded(self) -> dict[str, Any]:
        """Return what else a counterfactual should tell."""
        if self.by == "parts":
            return {"by": "parts", "relax": self.relax}
        fitted = self.centroids is not None
        count = self.clusters if self.centroids is None else len(self.centroids)
        return {"by": "clusters", "clusters": count, "fitted": fitted, "relax": self.relax}

    def allowed(
        self,
        query: Tensor,
        distractors: Tensor,
        query_aux: Tensor | None,
        distractor_aux: Tensor | None,
        query_parts: CellParts | None,
        distractor_parts: CellParts | None,
    ) -> Tensor:
        """Return the mask of swaps within a cluster, or within a part."""
        query, distractors = check_grids(query, distractors)
        shape = GridShape(int(query.shape[1]), int(query.shape[2]))
        if self.by == "parts":
            return _by_parts(query_parts, distractor_parts, shape.cells, len(distractors))
        if query_aux is None or distractor_aux is None:
            raise SettingError("the hard constraint needs auxiliary grids.", "Give the explainer an auxiliary.")
        mine = to_cells(resize_grid(check_grid(query_aux, "query_aux", ndim=3)[None], shape))
        theirs = to_cells(resize_grid(check_grid(distractor_aux, "distractor_aux", ndim=4), shape))
        if mine.shape[1] != theirs.shape[1] or len(theirs) != shape.cells * len(distractors):
            raise ShapeError(
                f"query_aux has shape {tuple(query_aux.shape)}, distractor_aux {tuple(distractor_aux.shape)}, for "
                f"{len(distractors)} distractors.",
                "Compute both with the same auxiliary, one grid per distractor.",
            )
        cells = torch.cat([mine, theirs])
        labels = (
            on_the_spot(cells, self.clusters, self.seed) if self.centroids is None else nearest(cells, self.centroids)
        )
        return same_label(labels[: shape.cells], labels[shape.cells :])


def _by_parts(mine: CellParts | None, theirs: CellParts | None, cells: int, distractors: int) -> Tensor:
    if mine is None or theirs is None:
        raise SettingError(
            "nobody says which parts the cells hold.", "Pass query_parts and distractor_parts, or use by='clusters'."
        )
    if len(mine) != cells or len(theirs) != cells * distractors:
        raise ShapeError(
            f"parts of {len(mine)} query cells and {len(theirs)} distractor cells.",
            f"Give those of all {cells} and {cells * distractors}.",
        )
    return shared_part(mine, theirs)


def nearest(cells: Tensor, centroids: Tensor) -> Tensor:
    """Return the number of the centroid nearest by cosine for each cell ``(m, e)``; ties go to the lowest."""
    if centroids.ndim != 2 or centroids.shape[1] != cells.shape[1]:
        raise ShapeError(
            f"centroids have shape {tuple(centroids.shape)}, cells have {cells.shape[1]} channels.",
            "Fit them on grids of the same auxiliary and layer.",
        )
    to = F.normalize(centroids.to(cells), dim=1)
    return (F.normalize(cells, dim=1) @ to.T).argmax(1)


def on_the_spot(cells: Tensor, clusters: int, seed: int) -> Tensor:
    """Return the cluster of each cell ``(m, e)`` when these alone are clustered, by direction."""
    from sklearn.cluster import KMeans

    rows = F.normalize(cells, dim=1).cpu().numpy()
    # Cells may repeat (flat background); more clusters than different cells cannot be.
    count = min(clusters, len(np.unique(rows, axis=0)))
    labels = KMeans(count, n_init=1, random_state=seed).fit(rows).labels_
    return torch.from_numpy(labels.astype(np.int64)).to(cells.device)
