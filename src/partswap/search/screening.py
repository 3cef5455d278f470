"""First-order screening: guess the gain of every swap from one gradient, look closely at the best few only."""

from __future__ import annotations

import torch
from torch import Tensor

from partswap.heads import SwapEvaluator

#: ``screen="auto"`` evaluates at least so many candidates per list of edits exactly ...
AUTO_LEAST = 64
#: ... and more where they are cheap: about as many as this many multiply-adds pay for, all lists together.
AUTO_MACS = 1e9
#: ... but no more than fit into the memory, at so many bytes each in the search itself.
AUTO_BYTES = 160
#: Where they are not cheap, lists share so many times AUTO_LEAST: of eight lists that grow, few have a best one.
AUTO_SHARED = 2


def screened(rank: Tensor, ahead: Tensor | None, open_pairs: Tensor, count: int) -> Tensor:
    """Return the flat indices of at most `count` candidates worth evaluating, in ascending order.

    `rank` and `ahead` are the estimated rank and lead of the target of every pair, ``(h*w, n*h*w)``. Given leads, a
    quarter of the candidates are those most likely to flip the decision: the best ranked ones whose lead seems
    positive, then those with the largest lead.
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


def screen_size(evaluator: SwapEvaluator, beam: int) -> int | None:
    """Return how many candidates per list ``screen="auto"`` evaluates exactly; None if all are cheap enough."""
    count = max(AUTO_LEAST, _affordable(evaluator) // beam)
    return None if count >= evaluator.shape.cells * len(evaluator.donors) else count


def shared_size(evaluator: SwapEvaluator) -> int:
    """Return how many candidates of all lists together ``screen="auto"`` evaluates exactly, at most."""
    return max(AUTO_SHARED * AUTO_LEAST, _affordable(evaluator))


def _affordable(evaluator: SwapEvaluator) -> int:
    cheap = AUTO_MACS / max(evaluator.macs_per_candidate(), 1)
    return int(min(cheap, evaluator.memory_bytes // AUTO_BYTES))


def screened_macs(evaluator: SwapEvaluator, head_macs: float, evaluated: int) -> float:
    """Return the multiply-adds of one screened edit, at most: passes of the head, estimates, exact evaluations."""
    cells, channels = evaluator.query.shape
    # A forward and a backward pass, and one product for all estimates.
    return 3 * head_macs + cells * channels * len(evaluator.donors) + evaluated * evaluator.macs_per_candidate()
