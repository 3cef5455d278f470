"""What a search is asked, checked and brought into the form it works with."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from partswap.counterfactual import About, Step
from partswap.errors import ClassIndexError, NoDistractorsError, ShapeError
from partswap.grid import Grids, GridShape, check_grid, resize_grid

#: The parts that each cell holds, by flat index: what people annotated.
CellParts = Sequence[frozenset[str]]


@dataclass(frozen=True)
class Problem:
    """A query, the class the model should say of it, and where regions may come from.

    Attributes
    ----------
    query : Tensor
        Grid ``(d, h, w)``.
    distractors : Tensor
        Grids ``(n, d, h, w)``.
    target : int
        The class the model should say.
    query_aux, distractor_aux : Tensor or None
        Auxiliary grids ``(e, h', w')`` and ``(n, e, h', w')``; both or neither.
    query_parts, distractor_parts : sequence of frozenset of str, or None
        The parts that the cells hold, ``h*w`` and ``n*h*w`` of them, for methods that want to know.
    about : About
        What the result should tell of the images and the model.
    context : Tensor or None
        What the head needs besides the query's cells, ``(1, tokens, d)``.
    """

    query: Tensor
    distractors: Tensor
    target: int
    query_aux: Tensor | None = None
    distractor_aux: Tensor | None = None
    query_parts: CellParts | None = None
    distractor_parts: CellParts | None = None
    about: About = field(default_factory=About)
    context: Tensor | None = None

    @classmethod
    def of(cls, query: Tensor | Grids, distractors: Tensor | Grids, target: int, **known: Any) -> Problem:
        """Return the problem after checking that query and distractors fit each other, both in float32."""
        context = None
        if isinstance(query, Grids):
            if len(query.values) != 1:
                raise ShapeError(f"there are the grids of {len(query.values)} queries.", "Pass those of one image.")
            context, query = query.context, query.values[0]
        query = check_grid(query, "query", ndim=3)
        distractors = distractors.values if isinstance(distractors, Grids) else distractors
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
        return cls(query, distractors, target, context=context, **known)

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
        mine = check_grid(self.query_aux, "query_aux", ndim=3)
        theirs = check_grid(self.distractor_aux, "distractor_aux", ndim=4)
        if len(theirs) != len(self.distractors) or theirs.shape[1] != mine.shape[0]:
            raise ShapeError(
                f"distractor_aux has shape {tuple(theirs.shape)} for {len(self.distractors)} distractors and a "
                f"query_aux of shape {tuple(mine.shape)}.",
                "Compute both with the same auxiliary, one grid per distractor.",
            )
        device = self.query.device
        return resize_grid(mine[None].to(device), self.shape)[0], resize_grid(theirs.to(device), self.shape)


def class_index(target: Any, classes: int) -> int:
    """Return a class index as a plain integer; anything out of range is an error."""
    try:
        index = -1 if isinstance(target, bool) else operator.index(target)
    except TypeError:
        index = -1
    if not 0 <= index < classes:
        raise ClassIndexError(f"target {target!r} is not a class.", f"Use a number from 0 to {classes - 1}.")
    return index


def first_step(logits: Tensor, target: int) -> Step:
    """Return what the model says of the unedited query; the target already being said is an error."""
    predicted = int(logits.argmax())
    if predicted == target:
        raise ClassIndexError(
            f"the model already predicts class {target} for the query.",
            "Choose another target, or another query: there is nothing to change.",
        )
    return Step(float(logits.softmax(0)[target]), predicted)
