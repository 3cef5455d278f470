"""Ours, the default: beam search over sets of edits, with screening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from partswap.search.methods.base import METHODS, Method


@METHODS.register("partswap")
@dataclass(frozen=True)
class Partswap(Method):
    """Ranks a set of edits by ``log g + lam * mean(log L_s)`` and keeps the best few sets."""

    name: ClassVar[str] = "partswap"
    title: ClassVar[str] = "partswap"
    semantic: ClassVar[bool] = True
    distractors: ClassVar[int | None] = None

    lam: float = 0.4
    tau: float = 0.1
    keep: float | None = None
    screen: int | Literal["auto"] | None = "auto"
    beam: int = 8
    max_edits: int | None = None
    memory_mb: float = 1024

    def settings(self) -> dict[str, Any]:
        """Return the settings of the search."""
        return {
            "lam": self.lam,
            "tau": self.tau,
            "objective": "set",
            "keep": self.keep,
            "beam": self.beam,
            "screen": self.screen,
            "max_edits": self.max_edits,
            "memory_mb": self.memory_mb,
        }
