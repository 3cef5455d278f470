"""The authors' way, re-implemented honestly: every candidate's whole grid is built, the whole head runs on each.

The one kindness: grids are built by indexing instead of a Python loop, in chunks, so that it runs in ordinary memory.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn


@torch.no_grad()
def score_candidates(
    head: nn.Module, query: Tensor, distractors: Tensor, target: int, pairs: Tensor, chunk: int = 256
) -> Tensor:
    """Return the target's log probability for each ``(query cell, distractor cell)`` of `pairs` ``(m, 2)``."""
    d, h, w = query.shape
    donors = distractors.flatten(2).transpose(1, 2).reshape(-1, d)
    flat = query.reshape(d, h * w)
    scores = []
    for part in pairs.split(chunk):
        grids = flat.repeat(len(part), 1, 1)
        grids[torch.arange(len(part)), :, part[:, 0]] = donors[part[:, 1]]
        scores.append(head(grids.view(len(part), d, h, w)).log_softmax(1)[:, target])
    return torch.cat(scores)


def all_pairs(cells: int, count: int) -> Tensor:
    """Return every candidate, ``(cells * count * cells, 2)``."""
    return torch.cartesian_prod(torch.arange(cells), torch.arange(count * cells))


def seconds_per_edit(head: nn.Module, query: Tensor, distractors: Tensor, target: int, *, sample: int = 2401) -> float:
    """Return how long one edit takes with all candidates.

    At most `sample` candidates are timed and the rest extrapolated: every candidate costs the same, and the real thing
    takes minutes per edit with 20 distractors.
    """
    pairs = all_pairs(query.shape[1] * query.shape[2], len(distractors))
    score_candidates(head, query, distractors, target, pairs[:256])  # warm up
    timed = pairs[:: max(1, len(pairs) // sample)][:sample]
    start = time.perf_counter()
    score_candidates(head, query, distractors, target, timed)
    return (time.perf_counter() - start) * len(pairs) / len(timed)
