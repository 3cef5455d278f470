"""The hard constraint of Vandenhende et al. 2022 (supplement): swaps only within a cluster of auxiliary cells."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from partswap.errors import SettingError, ShapeError
from partswap.grid import to_cells
from partswap.search.candidates import same_label, shared_part
from partswap.search.clusters import kmeans_labels, nearest
from partswap.search.methods.base import METHODS
from partswap.search.methods.goyal import Goyal
from partswap.search.problem import Problem


@METHODS.register("hard")
@dataclass(frozen=True)
class Hard(Goyal):
    """The greedy search of Goyal et al. among swaps within a cluster, or within an annotated part: an upper bound.

    Attributes
    ----------
    by : {"clusters", "parts"}
        What the two cells of a swap must share. Cells that hold no part cannot be swapped by parts.
    centroids : Tensor or None
        ``(clusters, e)``, fitted on a data set (`search.clusters.fit_centroids`); a cell belongs to the nearest
        by cosine. None clusters the cells of each query and its distractors alone, into `clusters`, with `seed`.
    relax : bool
        Whether to go on with forbidden swaps when the allowed ones have run out without a flip. How many edits broke
        the constraint is in the counterfactual's ``source.outside``.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in ("clusters", "parts"):
            raise SettingError(f"by is {self.by!r}.", "Use 'clusters' or 'parts'.")
        if self.clusters < 1:
            raise SettingError(f"clusters is {self.clusters}.", "Use at least 1; the paper's is 50.")

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}
        if self.centroids is not None:  # thousands of numbers otherwise
            values["centroids"] = f"<{' x '.join(map(str, self.centroids.shape))}>"
        return f"Hard({', '.join(f'{k}={v!r}' if k != 'centroids' else f'{k}={v}' for k, v in values.items())})"

    @property
    def wants_parts(self) -> bool:
        """Whether it needs to know which parts the cells hold."""
        return self.by == "parts"

    def record(self) -> dict[str, Any]:
        """Return the settings that decide the result, as plain values."""
        constraint: dict[str, Any] = {"by": self.by, "relax": self.relax}
        if self.by == "clusters":
            count = self.clusters if self.centroids is None else len(self.centroids)
            constraint |= {"clusters": count, "fitted": self.centroids is not None}
        return {**super().record(), **constraint}

    def check_auxiliary(self, there: bool) -> None:
        """Raise an error if cells are to be clustered, and there is no auxiliary to do so."""
        if self.by == "clusters" and not there:
            raise SettingError(
                "the hard constraint needs an auxiliary, whose cells it clusters.", "Name one: {auxiliary}."
            )

    def allowed(self, problem: Problem) -> Tensor:
        """Return the mask of swaps within a cluster, or within a part."""
        if self.by == "parts":
            return _by_parts(problem)
        assert problem.aux is not None  # `solve` asks `check_auxiliary`
        cells = torch.cat([to_cells(grids) for grids in problem.aux])
        labels = (
            kmeans_labels(cells, self.clusters, self.seed) if self.centroids is None else nearest(cells, self.centroids)
        )
        return same_label(*labels.split(problem.pairs))


def _by_parts(problem: Problem) -> Tensor:
    query_parts, distractor_parts, pairs = problem.query_parts, problem.distractor_parts, problem.pairs
    if query_parts is None or distractor_parts is None:
        raise SettingError(
            "nobody says which parts the cells hold.", "Pass query_parts and distractor_parts, or use by='clusters'."
        )
    if (len(query_parts), len(distractor_parts)) != pairs:
        raise ShapeError(
            f"parts of {len(query_parts)} query cells and {len(distractor_parts)} distractor cells.",
            f"Give those of all {pairs[0]} and {pairs[1]}.",
        )
    return shared_part(query_parts, distractor_parts)
