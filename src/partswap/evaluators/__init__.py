"""Exact evaluation of single-cell swaps, as cheaply as the head allows.

The search asks one question over and over: what does the head say if cell j of the distractors replaces cell i of
this grid? `HeadPlan` looks at the head and picks who answers.
"""

from partswap.evaluators.base import Activation, Prepared, SwapEvaluator, log_probabilities
from partswap.evaluators.caching import CachingEvaluator
from partswap.evaluators.plan import HeadPlan

__all__ = ["Activation", "CachingEvaluator", "HeadPlan", "Prepared", "SwapEvaluator", "log_probabilities"]
