"""Confidence of a mean: percentile bootstrap over explanations.

The edits of one explanation belong together, so explanations are drawn, not edits; a mean over all edits is then a
ratio of two sums. The draw depends on the seed and on how many explanations there are, so two methods that explained
the same queries are drawn alike, and the difference of their `resampled` means is a paired one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

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


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class Estimate:
    """A value and where it lies with 95 % confidence; a cell of a `ResultTable`."""

    mean: float | None  #: None of nothing
    interval: Interval | None = None  #: None where it is not known, as of fewer than two explanations
    count: int = 1  #: of how many explanations
    digits: int | None = field(default=None, compare=False)  #: decimals in a table, if not the table's own

    @classmethod
    def of(cls, values: Sequence[float], *, seed: int = 0, digits: int | None = None) -> Estimate:
        """Return the estimate from one value per explanation."""
        return cls(mean(values), interval(values, seed=seed), len(values), digits)

    @property
    def low(self) -> float:
        """Lower end of the interval, the value itself where there is none."""
        return self._ends[0]

    @property
    def high(self) -> float:
        """Upper end of the interval, likewise."""
        return self._ends[1]

    @property
    def _ends(self) -> Interval:
        value = math.nan if self.mean is None else self.mean
        return self.interval or (value, value)

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.interval is not None and (self.low > 0 or self.high < 0)

    def scaled(self, factor: float, digits: int | None = None) -> Estimate:
        """Return it times a factor, such as 100 for percent."""
        ends = None if self.interval is None else (factor * self.interval[0], factor * self.interval[1])
        return Estimate(None if self.mean is None else factor * self.mean, ends, self.count, digits)

    def show(self, *, factor: float = 1.0, digits: int = 1) -> str:
        """Return ``mean [low, high]``."""
        if self.mean is None:
            return "-"
        value = f"{factor * self.mean:.{digits}f}"
        ends = f" [{factor * self.low:.{digits}f}, {factor * self.high:.{digits}f}]"
        return value if self.interval is None else value + ends

    def plus_minus(self, digits: int) -> str:
        """Return ``mean ±half`` of the interval's width."""
        if self.mean is None:
            return "-"
        digits = digits if self.digits is None else self.digits
        half = "" if self.interval is None else f" ±{(self.high - self.low) / 2:.{digits}f}"
        return f"{self.mean:.{digits}f}{half}"
