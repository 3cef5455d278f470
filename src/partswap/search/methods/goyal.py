"""Goyal et al. 2019, Counterfactual Visual Explanations: greedy, no semantic term, one distractor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from partswap.search.methods.base import METHODS, Method


@METHODS.register("goyal")
@dataclass(frozen=True)
class Goyal(Method):
    """Greedy search for the most probable target, whatever is swapped for whatever; ``screen=None`` tries all pairs."""

    name: ClassVar[str] = "goyal"
    title: ClassVar[str] = "Goyal et al."
    semantic: ClassVar[bool] = False
    distractors: ClassVar[int | None] = 1

    screen: int | Literal["auto"] | None = "auto"
    max_edits: int | None = None
    memory_mb: float = 1024

    def settings(self) -> dict[str, Any]:
        """Return the settings of the search."""
        return {
            "lam": 0.0,
            "objective": "paper",
            "beam": 1,
            "screen": self.screen,
            "max_edits": self.max_edits,
            "memory_mb": self.memory_mb,
        }
