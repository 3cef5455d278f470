"""How large a difference a study can find."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

#: Accuracy of blocks that nobody explains: how far apart people and pairs are, beyond the luck of ten questions.
SPREAD = 0.15
#: A usual accuracy, as in the paper.
ACCURACY = 0.78


@dataclass(frozen=True)
class Power:
    """A study's size, and the difference of two methods that it finds with a given chance."""

    participants: int
    pairs: int
    blocks: float  #: per method and setup
    difference: float
    chance: float = 0.8

    def sentence(self) -> str:
        """Return it as people say it."""
        return (
            f"{self.participants} people, {self.pairs} pairs of classes, {self.blocks:.0f} blocks per method and way "
            f"of choosing: a difference of {100 * self.difference:.0f} points is found with {100 * self.chance:.0f} % "
            f"(two-sided, 5 %; accuracy {100 * ACCURACY:.0f} %, blocks {100 * SPREAD:.0f} points apart)."
        )


def power_of(
    participants: int, blocks: int, questions: int, conditions: int, pairs: int, *, chance: float = 0.8
) -> Power:
    """Return what a study finds: blocks are counted as independent, each with its own accuracy."""
    each = participants * blocks / conditions
    variance = ACCURACY * (1 - ACCURACY) / questions + SPREAD**2
    usual = NormalDist()
    needed = usual.inv_cdf(0.975) + usual.inv_cdf(chance)
    return Power(participants, pairs, each, needed * math.sqrt(2 * variance / each), chance)
