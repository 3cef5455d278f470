"""What a method is: a way to explain, under a name; most are a search with its settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from torch import Tensor, nn

from partswap.errors import SettingError
from partswap.evaluators import HeadPlan
from partswap.grid import FeatureGrids
from partswap.results.counterfactual import Counterfactual
from partswap.search.find import search
from partswap.search.problem import Problem
from partswap.search.settings import SearchSettings
from partswap.utils.cancel import CancelToken
from partswap.utils.registry import Registry


@dataclass(frozen=True)
class Method(ABC):
    """A named way to explain: its fields are its settings."""

    #: The name it is registered under.
    name: ClassVar[str]
    #: Who proposed it, for tables.
    title: ClassVar[str]
    #: Whether it wants auxiliary grids.
    semantic: ClassVar[bool] = False
    #: Whether without them it is not what its name says.
    needs_semantic: ClassVar[bool] = False
    #: How many distractors its authors use, the first of those there are; None means all.
    distractors: ClassVar[int | None] = None
    #: Whether it promises to flip the decision where that can be done at all.
    flips: ClassVar[bool] = True

    #: Memory the evaluation of candidates may use.
    memory_mb: float = SearchSettings.memory_mb

    def takes(self, setting: str) -> bool:
        """Tell whether a setting can be changed."""
        return any(f.init and f.name == setting for f in fields(self))

    @property
    def wants_parts(self) -> bool:
        """Whether it needs to know which parts the cells hold."""
        return False

    def check_auxiliary(self, there: bool) -> None:
        """Raise an error if the method would not be itself without an auxiliary, and there is none."""
        return

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return the settings that decide the result, as plain values."""

    @abstractmethod
    def solve(self, head: nn.Module | HeadPlan, problem: Problem, cancel: CancelToken | None = None) -> Counterfactual:
        """Return a counterfactual; `cancel` stops the search (see `partswap.utils.cancel`)."""

    def explain(
        self,
        head: nn.Module | HeadPlan,
        query: Tensor | FeatureGrids,
        distractors: Tensor | FeatureGrids,
        target: int,
        **optional: Any,
    ) -> Counterfactual:
        """Find a counterfactual; shapes as in `find_counterfactual`.

        `optional` is what else `Problem` may hold: auxiliary grids, and the parts of the cells, for methods that want
        them.
        """
        return self.solve(head, Problem.of(query, distractors, target, **optional))


@dataclass(frozen=True)
class SearchMethod(SearchSettings, Method):
    """A search with its settings; those that make it what it is are `fixed`."""

    def allowed(self, problem: Problem) -> Tensor | None:
        """Return a mask ``(h*w, n*h*w)`` of the swaps a hard constraint allows, None if there is no such constraint."""
        return None

    def check_auxiliary(self, there: bool) -> None:
        """Raise an error if the method would not be itself without an auxiliary, and there is none."""
        if self.needs_semantic and self.lam > 0 and not there:
            raise SettingError(
                f"the method {self.name} swaps like for like, and there is no auxiliary to say what is alike.",
                "Name one with {auxiliary}, or use the method goyal, which has no such term.",
            )

    def solve(self, head: nn.Module | HeadPlan, problem: Problem, cancel: CancelToken | None = None) -> Counterfactual:
        """Return the counterfactual that the search ends with."""
        self.check_auxiliary(problem.aux is not None)
        hard: dict[str, Any] = {"allowed": self.allowed(problem), "relax": getattr(self, "relax", False)}
        return search(head, problem, self, method=self.name, semantic=self.semantic, cancel=cancel, **hard)


def fixed(value: Any) -> Any:
    """Return the field of a setting that makes a method what it is and cannot be changed."""
    return field(default=value, init=False, repr=False)


METHODS: Registry[type[Method]] = Registry("method", "partswap.search.methods")
