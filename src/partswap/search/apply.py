"""Swaps that someone else chose: what does the model say after each?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from partswap.errors import SettingError
from partswap.evaluators import HeadPlan
from partswap.results.counterfactual import Counterfactual
from partswap.search.methods.base import Method
from partswap.search.problem import Problem, step_of
from partswap.search.settings import SearchSettings
from partswap.utils.cancel import CancelToken


def apply_edits(
    head: nn.Module | HeadPlan,
    problem: Problem,
    edits: Sequence[tuple[int, int]],
    *,
    method: str = "own swaps",
    memory_mb: float = SearchSettings.memory_mb,
    cancel: CancelToken | None = None,
) -> Counterfactual:
    """Return the counterfactual of edits ``(query cell, distractor cell)``, in this order.

    A query cell that was swapped can be swapped again only by leaving the first swap out.
    """
    query_cells, distractor_cells = problem.pairs
    for i, j in edits:
        if not (0 <= i < query_cells and 0 <= j < distractor_cells):
            raise SettingError(
                f"there is no swap of cell {i} for cell {j}.",
                f"Use cells below {query_cells} and {distractor_cells}, as flat indices.",
            )
    if len({i for i, _ in edits}) < len(edits):
        raise SettingError("a cell of the query is swapped twice.", "Leave one of the swaps out.")
    with torch.inference_mode(False), torch.no_grad():
        evaluator, target, before = problem.setup(head, memory_mb, cancel)
        prepared, steps = evaluator.start, []
        for number, (i, j) in enumerate(edits):
            evaluator.cancel.check(number)
            swap = [torch.tensor([k], device=problem.query.device) for k in (0, i, j)]
            prepared = evaluator.advance(prepared, *swap)
            steps.append(step_of(evaluator, prepared.logits[0], target, before.predicted))
    source = {"evaluator": evaluator.name}
    return problem.to_counterfactual(target, before, edits, tuple(steps), source, method=method, evaluations=len(edits))


@dataclass(frozen=True)
class OwnSwaps(Method):
    """Swaps that someone else chose, as a method: nothing is searched.

    Parameters
    ----------
    edits : sequence of (int, int)
        Query cell and distractor cell of each swap, as flat indices.
    """

    name: ClassVar[str] = "own swaps"
    title: ClassVar[str] = "own swaps"
    flips: ClassVar[bool] = False

    edits: Sequence[tuple[int, int]] = ()

    def record(self) -> dict[str, Any]:
        """Return no settings: the result holds the edits."""
        return {}

    def solve(self, head: nn.Module | HeadPlan, problem: Problem, cancel: CancelToken | None = None) -> Counterfactual:
        """Return the counterfactual of the swaps."""
        return apply_edits(head, problem, self.edits, method=self.name, memory_mb=self.memory_mb, cancel=cancel)
