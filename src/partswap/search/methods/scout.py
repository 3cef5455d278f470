"""SCOUT (Wang & Vasconcelos 2020, Self-aware Discriminant Counterfactual Explanations): heat maps, no search.

An attribution map of class y is ``a_y = sum_d F_d * d logit_y / dF_d`` per cell, negatives set to 0. What tells class c
from class c' in an image is where a_c is high, a_c' is not, and the model is confident:
``a_s * a_c * (max(a_c') - a_c')``. The query is mapped for its own class against the target, the distractor the
other way.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from partswap.errors import CutError, SettingError
from partswap.evaluators import HeadPlan, SwapEvaluator
from partswap.grid import FeatureGrids
from partswap.results.counterfactual import Counterfactual
from partswap.search.methods.base import METHODS, Method
from partswap.search.problem import Problem, step_of
from partswap.utils.cancel import CancelToken


@METHODS.register("scout")
@dataclass(frozen=True)
class Scout(Method):
    """Its one edit swaps the hottest cell of the query for the hottest of the distractors, flip or no flip.

    A head that needs the query's class token sees the distractor with that token too.
    """

    name: ClassVar[str] = "scout"
    title: ClassVar[str] = "SCOUT"
    distractors: ClassVar[int | None] = 1
    flips: ClassVar[bool] = False

    #: What the confidence map is of: the highest probability, or 1 - entropy / log(classes).
    confidence: Literal["softmax", "entropy"] = "softmax"

    def __post_init__(self) -> None:
        if self.confidence not in ("softmax", "entropy"):
            raise SettingError(f"confidence is {self.confidence!r}.", "Use 'softmax' or 'entropy'.")

    def record(self) -> dict[str, Any]:
        """Return the settings that decide the result, as plain values."""
        return {"confidence": self.confidence}

    def maps(
        self, head: nn.Module | HeadPlan, query: Tensor | FeatureGrids, distractor: Tensor, target: int
    ) -> tuple[Tensor, Tensor]:
        """Return the heat maps ``(h, w)`` of a query and of a distractor, both grids ``(d, h, w)``."""
        problem = Problem.of(query, distractor[None], target)
        with torch.inference_mode(False), torch.no_grad():
            evaluator, target, before = problem.setup(head, self.memory_mb)
            query_map = self._heat(evaluator, problem.query, before.predicted, target)
            return query_map, self._heat(evaluator, problem.distractors[0], target, before.predicted)

    def solve(self, head: nn.Module | HeadPlan, problem: Problem, cancel: CancelToken | None = None) -> Counterfactual:
        """Swap the hottest cells and say what the model makes of it; auxiliary grids and parts are not looked at."""
        started = time.perf_counter()
        with torch.inference_mode(False), torch.no_grad():
            evaluator, target, before = problem.setup(head, self.memory_mb, cancel)
            evaluator.cancel.check(0)
            i = self._heat(evaluator, problem.query, before.predicted, target).flatten().argmax()
            heats = [self._heat(evaluator, grid, target, before.predicted) for grid in problem.distractors]
            j = torch.stack(heats).flatten().argmax()
            after = evaluator.advance(evaluator.start, torch.zeros_like(i)[None], i[None], j[None]).logits[0]
        step = step_of(evaluator, after, target, before.predicted)
        return problem.to_counterfactual(
            target,
            before,
            [(int(i), int(j))],
            (step,),
            {"evaluator": evaluator.name},
            method=self.name,
            settings=self.record(),
            evaluations=1,
            seconds=time.perf_counter() - started,
        )

    def _heat(self, evaluator: SwapEvaluator, grid: Tensor, label: int, other: int) -> Tensor:
        """Return the heat map ``(h, w)`` of what tells class `label` from class `other` in one grid."""
        if not evaluator.has_gradients:
            raise CutError(
                "SCOUT's maps are gradients, and none pass through the head (it is quantised, or leaves torch).",
                "Use another method, or the network in floating point.",
            )
        with torch.enable_grad():
            leaf = grid.detach().requires_grad_()
            logits = evaluator.call(leaf.clone()[None]).float()[0]  # cloned: some heads work in place
            values = (logits[label], logits[other], self._confidence(logits))
            gradients = [torch.autograd.grad(value, leaf, retain_graph=True)[0] for value in values]
        gradients[2] = gradients[2].clamp(min=0)
        label_map, other_map, confidence = ((grid * g).sum(0).clamp(min=0) for g in gradients)
        return confidence * label_map * (other_map.max() - other_map)

    def _confidence(self, logits: Tensor) -> Tensor:
        logits = logits.double()  # where the model is sure, single precision rounds the gradient to nothing
        if self.confidence == "softmax":
            return logits.softmax(0).max()
        entropy = -(logits.softmax(0) * logits.log_softmax(0)).sum()
        return 1 - entropy / math.log(max(len(logits), 2))
