"""The semantic term: how likely a distractor cell shows the same part as a query cell."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from partswap.grid import to_cells


def cosines(query_aux: Tensor, distractor_aux: Tensor) -> Tensor:
    """Return the cosines ``(h*w, n*h*w)`` of the cells of a grid ``(e, h, w)`` and of grids ``(n, e, h, w)``."""
    u = F.normalize(to_cells(query_aux), dim=1)
    v = F.normalize(to_cells(distractor_aux), dim=1)
    return u @ v.T


def log_likeness(cosine: Tensor, tau: float) -> Tensor:
    """Return ``log L_s(i, j)``: a softmax over all cells of all distractors, per query cell."""
    return F.log_softmax(cosine / tau, dim=1)
