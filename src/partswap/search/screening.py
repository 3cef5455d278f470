"""First-order screening: guess the gain of every swap from one gradient, look closely at the best few only."""

from __future__ import annotations

from torch import Tensor


def estimated_gain(gradient: Tensor, cells: Tensor, donors: Tensor) -> Tensor:
    """Return the first-order estimate of the change of log probability for all swaps, ``(h*w, n*h*w)``.

    Parameters
    ----------
    gradient, cells : Tensor
        ``(h*w, d)``: of the target's log probability, and the grid it was taken at.
    donors : Tensor
        Distractor cells ``(n*h*w, d)``.
    """
    return gradient @ donors.T - (gradient * cells).sum(1, keepdim=True)
