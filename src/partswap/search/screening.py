"""First-order screening: guess the gain of every swap from one gradient, look closely at the best few only.

A gradient tells what a small change does, and a swap is a large one. What it misses is much the same for all swaps of
one cell, and hardly changes from edit to edit: it is measured once, with one swap per cell, and updated with what is
evaluated exactly on the way.
"""

from __future__ import annotations

import torch
from torch import Tensor

from partswap.evaluators import SwapEvaluator
from partswap.evaluators.base import Gains, margin

#: ``screen="auto"`` evaluates at least so many candidates per list of edits exactly ...
AUTO_LEAST = 64
#: ... and more where they are cheap: about as many as this many multiply-adds pay for, all lists together.
AUTO_MACS = 1e9
#: ... but no more than fit into the memory, at so many bytes each in the search itself.
AUTO_BYTES = 160
#: Where they are not cheap, lists share so many times AUTO_LEAST: of eight lists that grow, few have a best one.
AUTO_SHARED = 2


def screened(rank: Tensor, margins: Tensor | None, open_pairs: Tensor, count: int) -> Tensor:
    """Return the flat indices of at most `count` candidates worth evaluating, in ascending order.

    `rank` and `margins` are the estimated rank and margin of the target of every pair, ``(h*w, n*h*w)``. Given margins,
    a quarter of the candidates are those most likely to flip the decision: the best ranked ones whose margin seems
    positive, then those with the largest margin.
    """
    closed = ~open_pairs.flatten()
    count = min(count, int(open_pairs.sum()))
    best = rank.flatten().masked_fill(closed, -torch.inf)
    if margins is None:
        return best.topk(count).indices.sort().values
    share = count // 4
    flips = margins.flatten().masked_fill(closed, -torch.inf)
    positive = flips > 0
    likely = best.masked_fill(~positive, -torch.inf) if int(positive.sum()) >= share else flips
    chosen: Tensor = torch.cat([best.topk(count - share).indices, likely.topk(share).indices]).unique()
    return chosen


class EstimateResiduals:
    """What exact evaluations say the first-order estimates miss, for every pair ``(h*w, n*h*w)``.

    `score` is of the target's log probability, `margin` of its margin.
    """

    def __init__(self, pairs: tuple[int, int], device: torch.device) -> None:
        self.score = torch.zeros(pairs, dtype=torch.float32, device=device)
        self.margin = torch.zeros(pairs, dtype=torch.float32, device=device)

    def measure(self, evaluator: SwapEvaluator, target: int, rank: Tensor, gains: Gains, open_pairs: Tensor) -> int:
        """Evaluate the best ranked swap of every cell of the query exactly; returns how many there are.

        What the estimates (`gains`) miss there is taken for what they miss with every swap of that cell.
        """
        i = open_pairs.any(1).nonzero().flatten()
        j = rank.masked_fill(~open_pairs, -torch.inf)[i].argmax(1)
        start, pieces = evaluator.start, zip(i.split(evaluator.chunk_size), j.split(evaluator.chunk_size), strict=True)
        logits = torch.cat([evaluator.logits(start, torch.zeros_like(a), a, b) for a, b in pieces])
        logits = evaluator.check(logits)
        for residual, gain, value in (
            (self.score, gains.score, evaluator.score), (self.margin, gains.margin, margin)
        ):  # fmt: skip
            if gain is not None:
                residual[i] = (value(logits, target) - value(start.logits, target) - gain[i, j])[:, None]
        return len(i)

    def learn(self, flat: Tensor, missed: Tensor) -> None:
        """Take in what the estimated scores of pairs, by flat index, were seen to miss; the mean if seen repeatedly."""
        pairs, which = flat.unique(return_inverse=True)
        total = missed.new_zeros(len(pairs)).index_add_(0, which, missed)
        self.score.view(-1)[pairs] = total / torch.bincount(which, minlength=len(pairs))


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
