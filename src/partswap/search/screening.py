"""First-order screening: guess the gain of every swap from one gradient, look closely at the best few only."""

from __future__ import annotations

import torch
from torch import Tensor


def screened(rank: Tensor, ahead: Tensor | None, open_pairs: Tensor, count: int) -> Tensor:
    """Return the flat indices of the `count` candidates worth evaluating, in ascending order.

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
