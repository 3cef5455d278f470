"""The paper's prefilter: only the pairs of cells that look most alike are candidates."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def prefilter(cosine: Tensor, keep: float) -> Tensor:
    """Return a mask ``(h*w, n*h*w)`` of the fraction `keep` of all pairs with the highest cosine.

    Equal cosines: the lower flat index is kept.
    """
    count = max(1, math.floor(cosine.numel() * keep))
    order = torch.sort(cosine.flatten(), descending=True, stable=True).indices[:count]
    mask = torch.zeros(cosine.numel(), dtype=torch.bool, device=cosine.device)
    mask[order] = True
    return mask.view_as(cosine)
