"""Masks as run lengths, the way COCO stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partswap.errors import DataError


@dataclass(frozen=True)
class RunLengths:
    """A mask as the lengths of its runs: outside, inside, outside, ..., column after column."""

    height: int
    width: int
    counts: str | Sequence[int]  #: The lengths; a string is COCO's compressed form.

    def decode(self) -> NDArray[np.bool_]:
        """Return the mask, ``(height, width)`` bool."""
        counts = uncompress(self.counts) if isinstance(self.counts, str) else list(self.counts)
        if min(counts, default=0) < 0 or sum(counts) != self.height * self.width:
            raise DataError(
                f"the run lengths of a mask sum to {sum(counts)}, not to {self.width} x {self.height} pixels.",
                "Check that the mask belongs to the image.",
            )
        inside = np.arange(len(counts)) % 2 == 1
        return np.repeat(inside, counts).reshape(self.width, self.height).T


def uncompress(text: str) -> list[int]:
    """Return the run lengths of COCO's compressed form.

    Each number is written in groups of five bits, lowest first, as the character 48 + group; bit 5 says that
    another group follows, bit 4 of the last group is the sign. From the fourth number on, what is written is the
    difference to the number two before.

    Examples
    --------
    >>> uncompress("052203")
    [0, 5, 2, 7, 2, 10]
    """
    counts: list[int] = []
    value = shift = 0
    for character in text:
        group = ord(character) - 48
        if not 0 <= group < 64:
            raise DataError(f"{character!r} is no character of a compressed mask.", "Check the annotation file.")
        value |= (group & 31) << shift
        shift += 5
        if group & 32:
            continue
        if group & 16:
            value -= 1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
        value = shift = 0
    if shift:
        raise DataError("a compressed mask ends in the middle of a number.", "Check the annotation file.")
    return counts
