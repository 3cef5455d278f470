"""Goyal et al. 2019, Counterfactual Visual Explanations: greedy, no semantic term, one distractor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from partswap.search.methods.base import METHODS, SearchMethod, fixed
from partswap.search.settings import Matching, Objective, Temperature


@METHODS.register("goyal")
@dataclass(frozen=True)
class Goyal(SearchMethod):
    """Greedy search for the most probable target, whatever is swapped for whatever; ``screen=None`` tries all pairs."""

    name: ClassVar[str] = "goyal"
    title: ClassVar[str] = "Goyal et al."
    distractors: ClassVar[int | None] = 1

    lam: float = fixed(0.0)
    tau: Temperature = fixed("auto")
    matching: Matching = fixed("softmax")
    objective: Objective = fixed("paper")
    keep: float | None = fixed(None)
    beam: int = fixed(1)
