"""What a method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from partswap.counterfactual import Counterfactual
from partswap.heads import HeadPlan
from partswap.registry import Registry
from partswap.search.find import find_counterfactual


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

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments for `find_counterfactual`."""

    def explain(
        self,
        head: nn.Module | HeadPlan,
        query: Tensor,
        distractors: Tensor,
        target: int,
        *,
        query_aux: Tensor | None = None,
        distractor_aux: Tensor | None = None,
    ) -> Counterfactual:
        """Find a counterfactual; shapes as in `find_counterfactual`."""
        found = find_counterfactual(
            head,
            query,
            distractors,
            target,
            query_aux=query_aux if self.semantic else None,
            distractor_aux=distractor_aux if self.semantic else None,
            **self.settings(),
        )
        return replace(found, method=self.name)


METHODS: Registry[type[Method]] = Registry("method", "partswap.search")
