"""Interpretable basis decomposition (Zhou et al. 2018): what a class is made of, in attributes that have names.

A class is told by a weight vector ``w``, an attribute by another, ``q_t``. The decomposition is
``w = sum_t alpha_t q_t + r`` with ``alpha_t >= 0``. Attributes are chosen one by one, each time the one that leaves the
smallest residual ``r`` when all weights are fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from partswap.errors import ShapeError

#: An attribute must take at least this share of ``|w|^2`` off the residual to be chosen.
LEAST = 1e-9


@dataclass(frozen=True)
class Decomposition:
    """What a weight vector is made of."""

    alpha: NDArray[np.float64]  #: ``(t,)``, 0 for what was not chosen
    residual: NDArray[np.float64]  #: ``(d,)``, what the chosen ones do not tell
    chosen: tuple[int, ...]  #: in the order they were chosen
    explained: float  #: ``1 - |r|^2 / |w|^2``


def decompose(weights: ArrayLike, basis: ArrayLike, most: int | None = None) -> Decomposition:
    """Return a weight vector ``(d,)`` as a non-negative sum of the rows of a basis ``(t, d)``, and what is left.

    Parameters
    ----------
    weights, basis : array
        How long the rows are does not matter for what is chosen.
    most : int, optional
        Choose at most so many; by default as many as take anything off the residual, which is then the smallest
        that a non-negative sum can leave.

    Examples
    --------
    >>> found = decompose([2.0, 1.0, -1.0], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> found.alpha.round(6).tolist(), found.chosen, round(found.explained, 3)
    ([2.0, 1.0, 0.0], (0, 1), 0.833)
    """
    w, q = np.asarray(weights, np.float64), np.asarray(basis, np.float64)
    if w.ndim != 1 or q.ndim != 2 or q.shape[1] != len(w):
        raise ShapeError(f"a basis of shape {q.shape} for weights of shape {w.shape}.", "Use (t, d) and (d,).")
    lengths = np.linalg.norm(q, axis=1)
    usable = np.flatnonzero(lengths > 0).tolist()
    # In the space of the attributes: a few dozen numbers instead of thousands of channels.
    span, rows = np.linalg.qr((q / np.where(lengths > 0, lengths, 1)[:, None]).T)
    inside, total = span.T @ w, float(w @ w)
    outside = total - float(inside @ inside)
    chosen: list[int] = []
    alpha, left = np.zeros(len(q)), total
    while len(chosen) < (len(usable) if most is None else min(most, len(usable))):
        tried = [(*nnls(rows[:, [*chosen, t]], inside), t) for t in usable if t not in chosen]
        fitted, rest, best = min(tried, key=lambda candidate: (candidate[1], candidate[2]))
        if left - (outside + rest**2) <= LEAST * total:
            break
        chosen, left = [*chosen, best], outside + rest**2
        alpha = np.zeros(len(q))
        alpha[chosen] = fitted / lengths[chosen]
    positive = tuple(t for t in chosen if alpha[t] > 0)  # a later one may have taken the place of an earlier one
    return Decomposition(alpha, w - alpha @ q, positive, 1 - left / total if total else 0.0)
