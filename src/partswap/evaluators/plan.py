"""Pick the cheapest exact evaluator for a head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from partswap.cut.network import Head
from partswap.cut.shadow_copy import shadow_copy
from partswap.errors import SettingError, ShapeError
from partswap.evaluators.base import GRADIENTS, Activation, DtypeAdapter, SwapEvaluator, passes_gradients
from partswap.evaluators.class_token import keep_class_token_only
from partswap.evaluators.convolutional import ConvolutionalEvaluator
from partswap.evaluators.costs import module_macs
from partswap.evaluators.dense import DenseEvaluator
from partswap.evaluators.flattened import FirstLayer, FlattenedEvaluator, first_layer
from partswap.evaluators.onednn import with_onednn_linears
from partswap.evaluators.pooled import PooledEvaluator
from partswap.evaluators.structure import Structure, analyse_head
from partswap.grid import GridShape


class HeadPlan:
    """A head that was looked at once, to be searched many times: weights are laid out only here.

    The plan is checked against the head itself the first time it is used; a head that was misread is evaluated densely.

    Parameters
    ----------
    head : torch.nn.Module
        From grids to logits; it is used in eval mode and left as it is. If its weights change, make another plan.
    grid : GridShape
        The grids' cells.
    activation : {"softmax", "sigmoid"}
        What makes probabilities of the logits: one class among all, or each by itself. Either way the class with the
        highest one is what the network says.
    """

    # What is laid out here takes part in backward passes later, which tensors made in inference mode may not.
    @torch.inference_mode(False)
    @torch.no_grad()
    def __init__(self, head: nn.Module, grid: GridShape, activation: Activation = "softmax") -> None:
        if not isinstance(head, nn.Module):
            raise SettingError(f"the head is a {type(head).__name__}.", "Pass a torch.nn.Module from grids to logits.")
        self._needs = head if isinstance(head, Head) and head.needs_context else None
        dtype = head.dtype if isinstance(head, Head) else _dtype_of(head)
        head = head.body if isinstance(head, Head) else head
        # A second tree of modules around the same weights: in eval mode, and nothing works in place.
        busy = any(m.training or getattr(m, "inplace", False) is True for m in head.modules())
        self.head = shadow_copy(head) if busy else head
        self._faithful = shadow_copy(head, in_place=True) if busy else head
        self.grid, self.activation = grid, activation
        self._checked = False
        self._measured: dict[tuple[object, ...], Any] = {}
        #: What was understood of the head; nothing if it is evaluated densely.
        self._read: Structure | FirstLayer | None = analyse_head(self.head, grid)
        if self._read is not None and self._read.collapse == "flatten":
            self._read = first_layer(self._read, grid.cells)
        if self._read is None:
            self.head = keep_class_token_only(self.head)
            if isinstance(self.head, fx.GraphModule):
                self.head = with_onednn_linears(self.head)
        if dtype != torch.float32:  # the search works in float32, the head in what it was made for
            self.head, self._faithful = DtypeAdapter(self.head, dtype), DtypeAdapter(self._faithful, dtype)
            if isinstance(self._read, FirstLayer):
                self._read = replace(self._read, rest=DtypeAdapter(self._read.rest, dtype))
            elif self._read is not None:
                self._read = replace(self._read, tail=DtypeAdapter(self._read.tail, dtype))
        self._tolerance = max(1e-3, 16 * torch.finfo(dtype).eps)

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
        query, distractors, context = query.float(), distractors.float(), None if context is None else context.float()
        evaluator = self._make(query, distractors, memory_bytes, context)
        if not self._checked:
            if not self._check(evaluator, query):
                self._read = None
                evaluator = self._make(query, distractors, memory_bytes, context)
            self._checked = True  # only now: a check that raises has shown nothing
        return evaluator

    def _make(self, query: Tensor, distractors: Tensor, memory_bytes: int, context: Tensor | None) -> SwapEvaluator:
        given = self.head, query, distractors, memory_bytes
        evaluator: SwapEvaluator
        if self._read is None:
            evaluator = DenseEvaluator(*given, context)
        elif isinstance(self._read, FirstLayer):
            evaluator = FlattenedEvaluator(*given, self._read)
        elif self._read.operations:
            evaluator = ConvolutionalEvaluator(*given, self._read)
        else:
            evaluator = PooledEvaluator(*given, self._read)
        evaluator.measured, evaluator.activation = self._measured, self.activation
        return evaluator

    def has_gradients(self, query: Tensor, context: Tensor | None = None) -> bool:
        """Tell whether gradients pass through the head; without them every swap is evaluated exactly."""
        if GRADIENTS not in self._measured:
            given = () if context is None else (context,)
            with torch.inference_mode(False):
                self._measured[GRADIENTS] = passes_gradients(lambda grid: self.head(grid, *given), query[None])
        return bool(self._measured[GRADIENTS])

    @property
    def kind(self) -> str:
        """The name of the evaluator: "dense", "flattened", "convolutional" or "pooled"."""
        if self._read is None:
            return "dense"
        if isinstance(self._read, FirstLayer):
            return "flattened"
        return "convolutional" if self._read.operations else "pooled"

    @torch.no_grad()
    def _check(self, evaluator: SwapEvaluator, query: Tensor) -> bool:
        """Run the head once and tell whether the evaluator agrees with it, and does not cost more."""
        try:
            context = () if evaluator.context is None else (evaluator.context,)
            logits = self._faithful(query[None].clone(), *context)
        except Exception as error:  # a head may fail in any way on grids it was not made for
            raise ShapeError(
                f"the head fails on a grid of shape {tuple(query.shape)}: {type(error).__name__}: {error}.",
                "Pass grids (channels, height, width) of the layer the head begins after, on its device.",
            ) from error
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 1:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ShapeError(f"the head returned {got} for one grid.", "It must return logits (grids, classes).")
        evaluator.check(logits)
        if not _close(evaluator.start.logits, logits, self._tolerance):
            # It was misread; or it relies on working in place, which its shadow copy does not do.
            self.head = self._faithful
            return False
        return self.kind != "convolutional" or evaluator.macs_per_candidate() < module_macs(self.head, query[None])

    def __repr__(self) -> str:
        return f"HeadPlan({self.kind}, {self.grid})"


def _dtype_of(head: nn.Module) -> torch.dtype:
    return next((p.dtype for p in head.parameters() if p.is_floating_point()), torch.float32)


def _close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Tell whether logits are the same up to rounding."""
    return bool((a - b).abs().max() <= tolerance * max(1.0, float(b.abs().max())))
