"""Confidence of a mean: percentile bootstrap over explanations.

The edits of one explanation belong together, so explanations are drawn, not edits; a mean over all edits is then a
ratio of two sums. The draw depends on the seed and on how many explanations there are, so two methods that explained
the same queries are drawn alike, and the difference of their `resampled` means is a paired one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partswap.errors import SettingError

#: How often explanations are drawn, where a number is asked for.
RESAMPLES = 1000
#: Draws held in memory at once.
CHUNK = 2_000_000
#: Quantiles that bound a 95 % interval.
TAILS = (0.025, 0.975)

Interval = tuple[float, float]


def resampled(
    sums: ArrayLike, counts: ArrayLike | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Return ``sum(sums) / sum(counts)`` of explanations drawn with replacement, ``(resamples,)``.

    Parameters
    ----------
    sums : array
        Sum of the scores of each explanation.
    counts : array, optional
        How many scores each sum is of; one by default. A draw without any score gives NaN.
    """
    if resamples < 1:
        raise SettingError(f"resamples is {resamples}.", "Use at least 1; 1000 is usual.")
    top = np.asarray(sums, np.float64)
    bottom = None if counts is None else np.asarray(counts, np.float64)
    rng = np.random.default_rng(seed)
    rows = max(1, CHUNK // max(1, len(top)))
    parts = []
    for start in range(0, resamples, rows):
        drawn = rng.integers(len(top), size=(min(rows, resamples - start), len(top)), dtype=np.int32)
        if bottom is None:
            parts.append(top[drawn].mean(1))
            continue
        total = bottom[drawn].sum(1)
        parts.append(np.divide(top[drawn].sum(1), total, out=np.full(len(drawn), np.nan), where=total > 0))
    return np.concatenate(parts)


def interval(
    sums: ArrayLike, counts: ArrayLike | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """Return the percentile interval of the mean (95 %), None of fewer than two explanations."""
    if len(np.atleast_1d(sums)) < 2:
        return None
    low, high = np.nanquantile(resampled(sums, counts, resamples=resamples, seed=seed), TAILS)
    return float(low), float(high)


def show_mean(value: float | None, bounds: Interval | None, *, factor: float = 1.0, digits: int = 1) -> str:
    """Return a mean as a table shows it, with its interval if there is one."""
    if value is None:
        return "-"
    numbers = [f"{factor * number:.{digits}f}" for number in (value, *(bounds or ()))]
    return numbers[0] if bounds is None else "{} [{}, {}]".format(*numbers)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class Estimate:
    """A mean over explanations and where it lies with 95 % confidence."""

    mean: float | None  #: None of nothing.
    interval: Interval | None  #: None of fewer than two explanations.
    count: int  #: How many explanations.

    @classmethod
    def of(cls, values: Sequence[float], *, seed: int = 0) -> Estimate:
        """Return the estimate from one value per explanation."""
        return cls(mean(values), interval(values, seed=seed), len(values))

    def show(self, *, factor: float = 1.0, digits: int = 1) -> str:
        """Return it as a table shows it."""
        return show_mean(self.mean, self.interval, factor=factor, digits=digits)
