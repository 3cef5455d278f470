"""Pick the cheapest exact evaluator for a head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from partswap.cut.mirror import mirror
from partswap.cut.network import Head
from partswap.errors import NonFiniteError, ShapeError
from partswap.grid import GridShape
from partswap.heads.base import SwapEvaluator
from partswap.heads.convolutional import ConvolutionalEvaluator
from partswap.heads.costs import module_macs
from partswap.heads.dense import DenseEvaluator
from partswap.heads.flattened import FirstLayer, FlattenedEvaluator, first_layer
from partswap.heads.pooled import PooledEvaluator
from partswap.heads.structure import Structure, understand
from partswap.heads.tokens import trimmed


class HeadPlan:
    """A head that was looked at once, to be searched many times: weights are laid out only here.

    The plan is checked against the head itself the first time it is used; a head that was misread is evaluated densely.

    Parameters
    ----------
    head : torch.nn.Module
        From grids to logits; it is used in eval mode and left as it is. If its weights change, make another plan.
    grid : GridShape
        The grids' cells.
    """

    # What is laid out here takes part in backward passes later, which tensors made in inference mode may not.
    @torch.inference_mode(False)
    @torch.no_grad()
    def __init__(self, head: nn.Module, grid: GridShape) -> None:
        self._needs = head if isinstance(head, Head) and head.needs_context else None
        head = head.body if isinstance(head, Head) else head
        # A second tree of modules around the same weights: in eval mode, and nothing works in place.
        busy = any(m.training or getattr(m, "inplace", False) is True for m in head.modules())
        self.head = mirror(head) if busy else head
        self._faithful = mirror(head, in_place=True) if busy else head
        self.grid = grid
        self.structure: Structure | None = understand(self.head, grid)
        self.layer: FirstLayer | None = None
        self.kind = "dense"
        self._checked = False
        self._measured: dict[tuple[object, ...], Any] = {}
        if self.structure is not None and self.structure.collapse == "flatten":
            self.layer = first_layer(self.structure, grid.cells)
            self.kind = "flattened" if self.layer is not None else "dense"
        elif self.structure is not None:
            self.kind = "convolutional" if self.structure.operations else "pooled"
        if self.kind == "dense":
            self.head = trimmed(self.head)

    def evaluator(
        self, query: Tensor, distractors: Tensor, memory_bytes: int, context: Tensor | None = None
    ) -> SwapEvaluator:
        """Return the evaluator for one query and its distractors; `context` is the query's, if the head needs one."""
        context = None if self._needs is None else self._needs.check_context(context)
        if tuple(query.shape[-2:]) != tuple(self.grid):
            raise ShapeError(
                f"the query has a {query.shape[-2]} x {query.shape[-1]} grid, the plan was made for {self.grid}.",
                "Make a HeadPlan for this grid.",
            )
        evaluator = self._make(query, distractors, memory_bytes, context)
        if not self._checked:
            if not self._check(evaluator, query):
                self.kind, self.layer, self.structure = "dense", None, None
                evaluator = self._make(query, distractors, memory_bytes, context)
            self._checked = True  # only now: a check that raises has shown nothing
        return evaluator

    def _make(self, query: Tensor, distractors: Tensor, memory_bytes: int, context: Tensor | None) -> SwapEvaluator:
        evaluator = self._of_kind(query, distractors, memory_bytes, context)
        evaluator.measured = self._measured
        return evaluator

    def _of_kind(self, query: Tensor, distractors: Tensor, memory_bytes: int, context: Tensor | None) -> SwapEvaluator:
        if self.kind == "flattened" and self.layer is not None:
            return FlattenedEvaluator(self.head, query, distractors, memory_bytes, self.layer)
        if self.kind == "convolutional" and self.structure is not None:
            return ConvolutionalEvaluator(self.head, query, distractors, memory_bytes, self.structure)
        if self.kind == "pooled" and self.structure is not None:
            return PooledEvaluator(self.head, query, distractors, memory_bytes, self.structure)
        return DenseEvaluator(self.head, query, distractors, memory_bytes, context)

    @torch.no_grad()
    def _check(self, evaluator: SwapEvaluator, query: Tensor) -> bool:
        """Run the head once and tell whether the evaluator agrees with it, and does not cost more."""
        try:
            context = () if evaluator.context is None else (evaluator.context,)
            logits = self._faithful(query[None].clone(), *context)
        except Exception as error:  # a head may fail in any way on grids it was not made for
            raise ShapeError(
                f"the head fails on a grid of shape {tuple(query.shape)}: {type(error).__name__}: {error}.",
                "Pass grids (channels, height, width) of the layer the head begins after, in its type and device.",
            ) from error
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 1:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ShapeError(f"the head returned {got} for one grid.", "It must return logits (grids, classes).")
        if not bool(torch.isfinite(logits).all()):
            raise NonFiniteError(
                "the head returned NaN or infinite logits.",
                "Check its weights, and that it gets the features it was trained on.",
            )
        if not _close(evaluator.start.logits, logits):
            # It was misread; or it relies on working in place, which its mirror does not do.
            self.head = self._faithful
            return False
        return self.kind != "convolutional" or not self._costs_more(evaluator, query)

    def _costs_more(self, evaluator: SwapEvaluator, query: Tensor) -> bool:
        return evaluator.macs_per_candidate() >= module_macs(self.head, query[None])

    def __repr__(self) -> str:
        return f"HeadPlan({self.kind}, {self.grid})"


def _close(a: Tensor, b: Tensor) -> bool:
    """Tell whether logits are the same up to rounding."""
    return bool((a - b).abs().max() <= 1e-3 * max(1.0, float(b.abs().max())))
