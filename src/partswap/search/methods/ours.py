"""Ours, the default: beam search over sets of edits, with screening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from partswap.search.methods.base import METHODS, SearchMethod, fixed
from partswap.search.settings import Objective


@METHODS.register("partswap")
@dataclass(frozen=True)
class Partswap(SearchMethod):
    """Ranks a set of edits by ``log g + lam * mean(log L_s)`` and keeps the best few sets."""

    name: ClassVar[str] = "partswap"
    title: ClassVar[str] = "partswap"
    semantic: ClassVar[bool] = True

    objective: Objective = fixed("set")
