"""What a method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from partswap.counterfactual import Counterfactual
from partswap.heads import HeadPlan
from partswap.registry import Registry
from partswap.search.find import find_counterfactual

#: The parts that each cell holds, by flat index: what people annotated.
CellParts = Sequence[frozenset[str]]


@dataclass(frozen=True)
class Method(ABC):
    """A named way to explain; settings are fields, so it prints itself and can be changed with `replace`."""

    #: The name it is registered under.
    name: ClassVar[str]
    #: Who proposed it, for tables.
    title: ClassVar[str]
    #: Whether it wants auxiliary grids.
    semantic: ClassVar[bool]
    #: How many distractors its authors use; None means as many as there are.
    distractors: ClassVar[int | None]
    #: Whether it promises to flip the decision where that can be done at all.
    flips: ClassVar[bool] = True

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments for `find_counterfactual`."""

    def recorded(self) -> dict[str, Any]:
        """Return settings that a counterfactual should tell besides those of the search."""
        return {}

    @property
    def wants_parts(self) -> bool:
        """Whether it must be told which parts the cells hold."""
        return False

    def allowed(
        self,
        query: Tensor,
        distractors: Tensor,
        query_aux: Tensor | None,
        distractor_aux: Tensor | None,
        query_parts: CellParts | None,
        distractor_parts: CellParts | None,
    ) -> Tensor | None:
        """Return a mask ``(h*w, n*h*w)`` of the swaps a hard constraint allows, None if there is no such constraint."""
        return None

    def explain(
        self,
        head: nn.Module | HeadPlan,
        query: Tensor,
        distractors: Tensor,
        target: int,
        *,
        query_aux: Tensor | None = None,
        distractor_aux: Tensor | None = None,
        query_parts: CellParts | None = None,
        distractor_parts: CellParts | None = None,
    ) -> Counterfactual:
        """Find a counterfactual; shapes as in `find_counterfactual`.

        `query_parts` and `distractor_parts` say which parts the cells hold, ``h*w`` and ``n*h*w`` of them; only methods
        that want to know (`wants_parts`) look at them.
        """
        found = find_counterfactual(
            head,
            query,
            distractors,
            target,
            query_aux=query_aux if self.semantic else None,
            distractor_aux=distractor_aux if self.semantic else None,
            allowed=self.allowed(query, distractors, query_aux, distractor_aux, query_parts, distractor_parts),
            **self.settings(),
        )
        return replace(found, method=self.name, settings={**found.settings, **self.recorded()})


METHODS: Registry[type[Method]] = Registry("method", "partswap.search.methods")
