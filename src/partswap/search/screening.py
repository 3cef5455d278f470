"""First-order screening: guess the gain of every swap from one gradient, look closely at the best few only."""

from __future__ import annotations

import torch
from torch import Tensor

from partswap.heads import SwapEvaluator


def screened(rank: Tensor, ahead: Tensor | None, open_pairs: Tensor, count: int) -> Tensor:
    """Return the flat indices of at most `count` candidates worth evaluating, in ascending order.

    Parameters
    ----------
    rank : Tensor
        Estimated rank of every pair, ``(h*w, n*h*w)``.
    ahead : Tensor or None
        Estimated lead of the target; where given, a quarter of the candidates are those most likely to flip the
        decision: the best ranked ones whose lead seems positive, then those with the largest lead.
    open_pairs : Tensor
        Mask of pairs that may be used.
    """
    closed = ~open_pairs.flatten()
    count = min(count, int(open_pairs.sum()))
    best = rank.flatten().masked_fill(closed, -torch.inf)
    if ahead is None:
        return best.topk(count).indices.sort().values
    share = count // 4
    flips = ahead.flatten().masked_fill(closed, -torch.inf)
    positive = flips > 0
    likely = best.masked_fill(~positive, -torch.inf) if int(positive.sum()) >= share else flips
    chosen: Tensor = torch.cat([best.topk(count - share).indices, likely.topk(share).indices]).unique()
    return chosen


def screened_macs(evaluator: SwapEvaluator, head_macs: float, evaluated: int) -> float:
    """Return the multiply-adds of one screened edit, at most.

    That is a forward and a backward pass of the head, one product for all estimates, and the candidates that are
    evaluated.
    """
    cells, channels = evaluator.query.shape
    return 3 * head_macs + cells * channels * len(evaluator.donors) + evaluated * evaluator.macs_per_candidate()
