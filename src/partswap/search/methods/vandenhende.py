"""Vandenhende et al. 2022, Making Heads or Tails: greedy with a semantic term, many distractors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from partswap.search.methods.base import METHODS, SearchMethod, fixed
from partswap.search.settings import Matching, Objective


@METHODS.register("paper")
@dataclass(frozen=True)
class Vandenhende(SearchMethod):
    """The paper's method; ``keep=0.1`` is its prefilter, which the exact search does without by default."""

    name: ClassVar[str] = "paper"
    title: ClassVar[str] = "Vandenhende et al."
    semantic: ClassVar[bool] = True
    needs_semantic: ClassVar[bool] = True

    matching: Matching = fixed("softmax")
    objective: Objective = fixed("paper")
    beam: int = fixed(1)
