"""Exact evaluation of single-cell swaps, as cheaply as the head allows.

The search asks one question over and over: what does the head say if cell j of the distractors replaces cell i of
this grid? `HeadPlan` looks at the head and picks who answers.
"""

from partswap.heads.base import Activation, Prepared, SwapEvaluator, log_probabilities
from partswap.heads.choose import HeadPlan
from partswap.heads.remembering import RememberingEvaluator

__all__ = ["Activation", "HeadPlan", "Prepared", "RememberingEvaluator", "SwapEvaluator", "log_probabilities"]
