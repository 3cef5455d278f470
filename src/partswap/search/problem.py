"""What a search is asked, checked and brought into the form it works with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from partswap.errors import ClassIndexError, MemoryBudgetError, NoDistractorsError, SettingError, ShapeError
from partswap.evaluators import HeadPlan, SwapEvaluator
from partswap.grid import FeatureGrids, GridShape, check_grid, resize_grid
from partswap.models.names import class_index
from partswap.results.counterfactual import Counterfactual, Edit, Step
from partswap.results.provenance import ResultContext
from partswap.search.cache import SearchCache
from partswap.search.semantic import (
    centered,
    cosines,
    log_similarity,
    recurring_similarity,
    resolve_tau,
    temperature,
)
from partswap.search.settings import SearchSettings
from partswap.utils.cancel import CancelToken

#: The parts that each cell holds, by flat index: what people annotated.
CellParts = Sequence[frozenset[str]]


#: Numbers of pairs of cells that take no more than this are computed whatever memory may be used.
SMALL_MB = 256.0


class Similarity(NamedTuple):
    """How alike the cells of query and distractors are."""

    log: Tensor  #: ``log L_s`` of every pair, ``(h*w, n*h*w)``
    tau: float  #: the temperature


@dataclass(frozen=True)
class Problem:
    """A query, the class the model should say of it, and where regions may come from."""

    query: Tensor  #: grid ``(d, h, w)``
    distractors: Tensor  #: grids ``(n, d, h, w)``
    target: int  #: the class the model should say
    query_aux: Tensor | None = None  #: auxiliary grid ``(e, h', w')``
    distractor_aux: Tensor | None = None  #: auxiliary grids ``(n, e, h', w')``; both or neither
    aux_widths: Sequence[int] = ()  #: channels of the layers side by side in the auxiliary grids, still to be centered
    auxiliary_tau: float | None = None  #: the auxiliary's own temperature, None if it has none
    query_parts: CellParts | None = None  #: the parts that the ``h*w`` cells hold, for methods that want to know
    distractor_parts: CellParts | None = None  #: those of the ``n*h*w`` cells
    about: ResultContext = field(default_factory=ResultContext)  #: what the result says of the images and the model
    context: Tensor | None = None  #: what the head needs besides the query's cells, ``(1, tokens, d)``
    #: returns which sets of edits are accepted, as by the pixel check; a search over sets prefers those (see `beam`)
    judge: Callable[[Sequence[Sequence[tuple[int, int]]]], Sequence[object]] | None = None
    #: what searches of this problem share; None: each computes everything itself
    cache: SearchCache | None = None

    @classmethod
    def of(
        cls, query: Tensor | FeatureGrids, distractors: Tensor | FeatureGrids, target: int, **optional: Any
    ) -> Problem:
        """Return the problem after checking that query and distractors fit each other, both in float32."""
        if optional.pop("remember", False):
            warnings.warn("remember=True is cache=SearchCache() now.", DeprecationWarning, stacklevel=2)
            optional["cache"] = SearchCache()
        context = None
        if isinstance(query, FeatureGrids):
            if len(query.values) != 1:
                raise ShapeError(f"there are the grids of {len(query.values)} queries.", "Pass those of one image.")
            context, query = query.context, query.values[0]
        query = check_grid(query, "query", ndim=3)
        distractors = distractors.values if isinstance(distractors, FeatureGrids) else distractors
        if isinstance(distractors, Tensor) and distractors.ndim == 4 and len(distractors) == 0:
            raise NoDistractorsError(
                "there are no distractors.", "Pass at least one image that the model predicts as the target class."
            )
        distractors = check_grid(distractors, "distractors", ndim=4)
        if distractors.shape[1:] != query.shape:
            raise ShapeError(
                f"distractors have grids of shape {tuple(distractors.shape[1:])}, the query {tuple(query.shape)}.",
                "Compute both with the same features, from images of the same size.",
            )
        if distractors.device != query.device:
            raise ShapeError(f"query is on {query.device}, distractors on {distractors.device}.", "Move one of them.")
        # Tensors of a caller's inference mode take part in no backward pass, and screening needs one.
        with torch.inference_mode(False):
            query, distractors = (grid.clone() if grid.is_inference() else grid for grid in (query, distractors))
        return cls(query, distractors, target, context=context, **optional)

    @property
    def shape(self) -> GridShape:
        """Cells of the query and of every distractor."""
        return GridShape(int(self.query.shape[1]), int(self.query.shape[2]))

    @property
    def pairs(self) -> tuple[int, int]:
        """How many query cells and distractor cells there are."""
        return self.shape.cells, self.shape.cells * len(self.distractors)

    @cached_property
    def aux(self) -> tuple[Tensor, Tensor] | None:
        """The auxiliary grids of query ``(e, h, w)`` and distractors ``(n, e, h, w)``, on the head's grid."""
        if (self.query_aux is None) != (self.distractor_aux is None):
            raise ShapeError("only one of query_aux and distractor_aux is given.", "Give both or neither.")
        if self.query_aux is None or self.distractor_aux is None:
            return None
        query_aux = check_grid(self.query_aux, "query_aux", ndim=3)
        distractor_aux = check_grid(self.distractor_aux, "distractor_aux", ndim=4)
        if len(distractor_aux) != len(self.distractors) or distractor_aux.shape[1] != query_aux.shape[0]:
            raise ShapeError(
                f"distractor_aux has shape {tuple(distractor_aux.shape)} for {len(self.distractors)} distractors and a "
                f"query_aux of shape {tuple(query_aux.shape)}.",
                "Compute both with the same auxiliary, one grid per distractor.",
            )
        device = self.query.device
        query_aux = resize_grid(query_aux[None].to(device), self.shape)[0]
        distractor_aux = resize_grid(distractor_aux.to(device), self.shape)
        return centered(query_aux, distractor_aux, self.aux_widths) if self.aux_widths else (query_aux, distractor_aux)

    def setup(
        self, head: nn.Module | HeadPlan, memory_mb: float, cancel: CancelToken | None = None
    ) -> tuple[SwapEvaluator, int, Step]:
        """Return the evaluator of swaps, the target as an index, and what the model says of the unedited query.

        The evaluator checks `cancel` between its batches.
        """
        self._check_pairs(memory_mb)
        evaluator = self.evaluator(head, memory_mb)
        evaluator.cancel = CancelToken() if cancel is None else cancel
        logits = evaluator.start.logits
        target = class_index(self.target, logits.shape[1])
        predicted = int(logits[0].argmax())
        if predicted == target:
            raise ClassIndexError(
                f"the model already predicts class {target} for the query.",
                "Choose another target, or another query: there is nothing to change.",
            )
        return evaluator, target, step_of(evaluator, logits[0], target, predicted)

    def _check_pairs(self, memory_mb: float) -> None:
        """Raise an error if one number per pair of cells does not fit into memory: a search holds several of these."""
        query_cells, distractor_cells = self.pairs
        needed_mb = 4 * query_cells * distractor_cells / 2**20
        if needed_mb > max(memory_mb, SMALL_MB):
            raise MemoryBudgetError(
                f"a grid of {self.shape} cells and {len(self.distractors)} distractors make "
                f"{query_cells * distractor_cells:,} swaps: {needed_mb:,.0f} MB for one number each, and memory_mb is "
                f"{memory_mb:,.0f}.",
                "Cut at a later {layer}, check that images have the size that the model was trained with, pass fewer "
                "distractors, or raise memory_mb.",
            )

    @cached_property
    def cosine(self) -> Tensor | None:
        """The cosines of auxiliary cells, ``(h*w, n*h*w)``."""
        return None if self.aux is None else cosines(*self.aux)

    def similarity(self, settings: SearchSettings) -> Similarity:
        """Return ``log L_s`` of every pair, the paper's or ours as the settings say, and its temperature."""
        if self.aux is None or self.cosine is None:
            raise SettingError("the semantic term needs auxiliary grids.", "Pass query_aux and distractor_aux.")
        tau = resolve_tau(settings, self.auxiliary_tau)
        tau = temperature(self.cosine) if tau == "auto" else tau
        compute = partial(_similarity, self.cosine, *self.aux, tau, softmax=settings.softmax)
        return compute() if self.cache is None else self.cache.similarity((tau, settings.softmax), compute)

    def evaluator(self, head: nn.Module | HeadPlan, memory_mb: float) -> SwapEvaluator:
        """Return the evaluator of swaps; of a problem with a cache, always the same one."""

        def make() -> SwapEvaluator:
            plan = head if isinstance(head, HeadPlan) else HeadPlan(head, self.shape)
            return plan.evaluator(self.query, self.distractors, int(memory_mb * 2**20), self.context)

        return make() if self.cache is None else self.cache.evaluator((head, memory_mb), make)

    def with_first_distractors(self, count: int, about: ResultContext) -> Problem:
        """Return the problem with its first distractors only; evaluators of the two share what they compute."""
        cells = self.shape.cells * count
        return replace(
            self,
            distractors=self.distractors[:count],
            distractor_aux=None if self.distractor_aux is None else self.distractor_aux[:count],
            distractor_parts=None if self.distractor_parts is None else self.distractor_parts[:cells],
            about=about,
            cache=None if self.cache is None else self.cache.with_first_cells(cells),
        )

    def to_counterfactual(
        self,
        target: int,
        before: Step,
        edits: Sequence[tuple[int, int]],
        trace: tuple[Step, ...],
        source: Mapping[str, Any],
        **search: Any,
    ) -> Counterfactual:
        """Return the counterfactual of edits ``(query cell, distractor cell)``; `source` goes into its source."""
        return Counterfactual(
            query_class=before.predicted,
            target=target,
            grid=self.shape,
            distractors=len(self.distractors),
            edits=tuple(Edit.of(i, j, self.shape) for i, j in edits),
            before=before,
            trace=trace,
            flipped=bool(trace) and trace[-1].predicted == target,
            source=self.about.result_provenance((before, *trace), target, **source),
            pictures=self.about.pictures,
            **search,
        )


def _similarity(cosine: Tensor, query_aux: Tensor, distractor_aux: Tensor, tau: float, *, softmax: bool) -> Similarity:
    log = log_similarity(cosine, tau) if softmax else recurring_similarity(query_aux, distractor_aux, tau)
    return Similarity(log, tau)


def step_of(
    evaluator: SwapEvaluator, logits: Tensor, target: int, query_class: int, objective: float | None = None
) -> Step:
    """Return the step at which the head returns `logits` ``(classes,)``."""
    probabilities = evaluator.probabilities(logits)
    return Step(float(probabilities[target]), int(logits.argmax()), objective, float(probabilities[query_class]))


def parts_of(distractor_parts: Sequence[CellParts] | None, indices: Sequence[int]) -> CellParts | None:
    """Return the parts of the cells of these distractors, in one row."""
    if distractor_parts is None:
        return None
    if indices and max(indices) >= len(distractor_parts):
        raise ShapeError(f"parts of {len(distractor_parts)} distractors.", "Give those of all distractors.")
    return [cell for k in indices for cell in distractor_parts[k]]
