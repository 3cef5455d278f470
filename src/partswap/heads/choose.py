"""Pick the cheapest exact evaluator for a head."""

from __future__ import annotations

from torch import Tensor, nn

from partswap.grid import GridShape
from partswap.heads.base import SwapEvaluator
from partswap.heads.convolutional import ConvolutionalEvaluator
from partswap.heads.dense import DenseEvaluator
from partswap.heads.flattened import FirstLayer, FlattenedEvaluator, first_layer
from partswap.heads.pooled import PooledEvaluator
from partswap.heads.structure import Structure, understand
from partswap.heads.tokens import trimmed


class HeadPlan:
    """A head that was looked at once, to be searched many times: weights are laid out only here.

    Parameters
    ----------
    head : torch.nn.Module
        From grids to logits, in eval mode. If its weights change, make another plan.
    grid : GridShape
        The grids' cells.
    dense : bool
        Do not look for a cheaper way than the whole head.
    """

    def __init__(self, head: nn.Module, grid: GridShape, *, dense: bool = False) -> None:
        self.head = head
        self.structure: Structure | None = None if dense else understand(head, grid)
        self.layer: FirstLayer | None = None
        self.kind = "dense"
        if self.structure is not None and self.structure.collapse == "flatten":
            self.layer = first_layer(self.structure, grid.cells)
            self.kind = "flattened" if self.layer is not None else "dense"
        elif self.structure is not None:
            self.kind = "convolutional" if self.structure.operations else "pooled"
        if self.kind == "dense" and not dense:
            self.head = trimmed(head)

    def evaluator(self, query: Tensor, distractors: Tensor, memory_bytes: int) -> SwapEvaluator:
        """Return the evaluator for one query and its distractors.

        The weights that were laid out anew count towards the memory, but never for more than half of it.
        """
        memory_bytes = max(memory_bytes // 2, memory_bytes - self.bytes)
        if self.kind == "flattened" and self.layer is not None:
            return FlattenedEvaluator(self.head, query, distractors, memory_bytes, self.layer)
        if self.kind == "convolutional" and self.structure is not None:
            return ConvolutionalEvaluator(self.head, query, distractors, memory_bytes, self.structure)
        if self.kind == "pooled" and self.structure is not None:
            return PooledEvaluator(self.head, query, distractors, memory_bytes, self.structure)
        return DenseEvaluator(self.head, query, distractors, memory_bytes)

    @property
    def bytes(self) -> int:
        """How much memory the plan itself holds."""
        return self.layer.weight.numel() * self.layer.weight.element_size() if self.layer is not None else 0

    def __repr__(self) -> str:
        return f"HeadPlan({self.kind})"
