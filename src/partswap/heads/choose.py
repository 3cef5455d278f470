"""Pick the cheapest exact evaluator for a head."""

from __future__ import annotations

from torch import Tensor, nn

from partswap.heads.base import SwapEvaluator
from partswap.heads.dense import DenseEvaluator


def evaluator_for(head: nn.Module, query: Tensor, distractors: Tensor, memory_bytes: int) -> SwapEvaluator:
    """Return the evaluator for this head; a head nobody recognises is evaluated densely."""
    return DenseEvaluator(head, query, distractors, memory_bytes)
