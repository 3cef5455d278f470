"""Vandenhende et al. 2022, Making Heads or Tails: greedy with a semantic term, many distractors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from partswap.search.methods.base import METHODS, Method


@METHODS.register("paper")
@dataclass(frozen=True)
class Paper(Method):
    """The paper's method; ``keep=0.1`` is its prefilter, which the exact search does without by default."""

    name: ClassVar[str] = "paper"
    title: ClassVar[str] = "Vandenhende et al."
    semantic: ClassVar[bool] = True
    distractors: ClassVar[int | None] = None

    lam: float = 0.4
    tau: float = 0.1
    keep: float | None = None
    screen: int | Literal["auto"] | None = "auto"
    max_edits: int | None = None
    memory_mb: float = 1024

    def settings(self) -> dict[str, Any]:
        """Return the settings of the search."""
        return {
            "lam": self.lam,
            "tau": self.tau,
            "objective": "paper",
            "keep": self.keep,
            "beam": 1,
            "screen": self.screen,
            "max_edits": self.max_edits,
            "memory_mb": self.memory_mb,
        }
