"""What an evaluator of single-cell swaps is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partswap.cut.shadow_copy import EvalModule
from partswap.errors import MemoryBudgetError, NonFiniteError
from partswap.evaluators.costs import Run
from partswap.evaluators.onednn import multiply
from partswap.grid import GridShape, to_cells
from partswap.utils.cancel import CancelToken

#: Among what is measured of a head: whether gradients pass through it.
GRADIENTS = ("gradients",)
#: How logits become probabilities.
Activation = Literal["softmax", "sigmoid"]
Cost = TypeVar("Cost", int, float)


@dataclass
class Prepared:
    """Grids in the middle of a search, with what the evaluator wants to remember about them."""

    cells: Tensor  #: ``(states, h*w, d)``
    logits: Tensor  #: ``(states, classes)``, what the head says of these grids


class Gains(NamedTuple):
    """What each swap would change to first order, ``(h*w, n*h*w)``."""

    score: Tensor  #: of the target's log probability
    margin: Tensor | None = None  #: of its margin, if that was asked for


class DtypeAdapter(EvalModule):
    """A module of another precision among float32: it gets what it takes and gives float32."""

    def __init__(self, body: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.body, self.dtype = body, dtype
        self.train()

    def forward(self, *given: Tensor) -> Any:
        """Run the module."""
        found = self.body(*(tensor.to(self.dtype) for tensor in given))
        return found.float() if isinstance(found, Tensor) else found


def log_probabilities(logits: Tensor, activation: Activation) -> Tensor:
    """Return the log probabilities of classes: of one among all (softmax), or of each by itself (sigmoid)."""
    return F.log_softmax(logits, -1) if activation == "softmax" else F.logsigmoid(logits)


def margin(logits: Tensor, target: int) -> Tensor:
    """Return the target's logit minus the largest of the others, ``(m,)``."""
    others = logits.clone()
    others[:, target] = -torch.inf
    return logits[:, target] - others.amax(1)


def passes_gradients(call: Callable[[Tensor], Tensor], points: Tensor) -> bool:
    """Tell whether gradients pass through a function: not through integers, nor through what torch does not compute."""
    try:
        with torch.enable_grad():
            points = points.detach().clone().requires_grad_()
            found = torch.autograd.grad(call(points.clone()).float().sum(), points, allow_unused=True)[0]
    except RuntimeError:  # of the first operation that knows none
        return False
    return found is not None


class SwapEvaluator(ABC):
    """Says what a head makes of grids in which one cell was swapped.

    The head maps grids ``(m, d, h, w)`` to logits ``(m, classes)``, in eval mode. The query is ``(d, h, w)``, the
    distractors are ``(n, d, h, w)``, and the context is what the head takes besides grids, of the query:
    ``(1, tokens, d)``. `memory_bytes` may be used beyond what is given.
    """

    name: str

    def __init__(
        self, head: nn.Module, query: Tensor, distractors: Tensor, memory_bytes: int, context: Tensor | None = None
    ) -> None:
        self.head, self.context = head, context
        self.shape = GridShape(int(query.shape[-2]), int(query.shape[-1]))
        self.query = to_cells(query).contiguous()  # (h*w, d)
        self.donors = to_cells(distractors).contiguous()  # (n*h*w, d)
        self.memory_bytes = memory_bytes
        self.activation: Activation = "softmax"
        #: Costs that were measured; a plan shares them among its evaluators, since they depend on the head only.
        self.measured: dict[tuple[object, ...], Any] = {}
        #: Stops a search between batches.
        self.cancel = CancelToken()

    @abstractmethod
    def prepare(self, cells: Tensor) -> Prepared:
        """Prepare grids given as cells ``(states, h*w, d)``."""

    @abstractmethod
    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return logits ``(m, classes)`` after swapping donor ``j[k]`` into cell ``i[k]`` of grid ``state[k]``."""

    @abstractmethod
    def bytes_per_candidate(self) -> int:
        """Return how much memory `logits` needs for each candidate."""

    @abstractmethod
    def macs_per_candidate(self) -> float:
        """Return how many multiply-adds `logits` takes for each candidate."""

    @cached_property
    def start(self) -> Prepared:
        """The query's own grid, prepared."""
        return self.prepare(self.query[None])

    @property
    def has_gradients(self) -> bool:
        """Whether gradients pass from the logits to the grid; tried once per plan."""
        if GRADIENTS not in self.measured:
            self.measured[GRADIENTS] = passes_gradients(self.run, self.query[None])
        return bool(self.measured[GRADIENTS])

    def score(self, logits: Tensor, target: int) -> Tensor:
        """Return the target's log probability, ``(m,)``."""
        return log_probabilities(logits, self.activation)[:, target]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities of the classes, of one grid or of several."""
        return log_probabilities(logits, self.activation).exp()

    def call(self, grids: Tensor) -> Tensor:
        """Return what the head says of grids ``(m, d, h, w)``, each with the query's context."""
        context = () if self.context is None else (self.context.expand(len(grids), -1, -1),)
        logits: Tensor = self.head(grids, *context)
        return logits

    def run(self, cells: Tensor) -> Tensor:
        """Return the logits of grids given as cells ``(m, h*w, d)``; gradients pass through it."""
        return self.call(self.to_grids(cells))

    def advance(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Prepared:
        """Return the grids after these swaps, prepared."""
        return self.prepare(self.swapped(prepared, state, i, j))

    def gradients(self, prepared: Prepared, target: int, *, margins: bool) -> list[Tensor]:
        """Return gradients ``(states, h*w, d)``: of the target's log probability and, if asked for, of its margin.

        The decision flips when the margin passes zero (see `margin`).
        """
        # One state at a time where activations are large: a backward pass keeps all of them.
        size = max(1, min(len(prepared.cells), self.chunk_size // 8))
        parts = [self._backward(self.run, cells, target, margins) for cells in prepared.cells.split(size)]
        return [torch.cat(kind) for kind in zip(*parts, strict=True)]

    def gains(self, prepared: Prepared, target: int, *, margins: bool) -> Iterator[Gains]:
        """Yield for every state what each swap would change to first order."""
        for cells, *kinds in zip(prepared.cells, *self.gradients(prepared, target, margins=margins), strict=True):
            yield Gains(*(multiply(g, self.donors.T) - (g * cells).sum(1, keepdim=True) for g in kinds))

    def _backward(self, function: Callable[[Tensor], Tensor], at: Tensor, target: int, margins: bool) -> list[Tensor]:
        """Return the gradients of `function` (to logits) at some points, both kinds from one forward pass."""
        with torch.enable_grad():
            points = at.detach().requires_grad_()
            logits = function(points).float()
            scores = [self.score(logits, target).sum()]
            scores += [margin(logits, target).sum()] if margins else []
            return [torch.autograd.grad(score, points, retain_graph=score is not scores[-1])[0] for score in scores]

    def evaluate(
        self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor, target: int, *, flips: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the target's log probability ``(m,)`` and whether the decision flips ``(m,)``, within memory.

        Without `flips` the second may be left all False, which can be cheaper.
        """
        scores, flipped = [], []
        size = self.chunk_size
        for s, a, b in zip(state.split(size), i.split(size), j.split(size), strict=True):
            self.cancel.check()
            logits = self.check(self.logits(prepared, s, a, b))
            scores.append(self.score(logits, target))
            flipped.append(logits.argmax(1) == target)
        return torch.cat(scores), torch.cat(flipped)

    @cached_property
    def chunk_size(self) -> int:
        """How many candidates fit into memory at once; none is an error."""
        fixed, each = self.fixed_bytes(), max(self.bytes_per_candidate(), 1)
        size = (self.memory_bytes - fixed) // each
        if size < 1:
            need = fixed + each  # what is fixed is at its least here, where nothing is to spare
            raise MemoryBudgetError(
                f"one candidate needs {need / 2**20:.1f} MB but memory_mb allows {self.memory_bytes / 2**20:.1f}.",
                f"Set memory_mb to at least {need // 2**20 + 1}.",
            )
        return int(size)

    def fixed_bytes(self) -> int:
        """Return how much memory `logits` takes whatever the number of candidates.

        It may grow with the budget, but a budget that holds its least and one candidate must be enough.
        """
        return 0

    def measure(self, cost: Callable[[Run, Tensor], Cost], module: nn.Module, row: Tensor) -> Cost:
        """Return what a row costs in a module (see `costs`), which runs it the first time only."""
        key = cost, module, row.shape
        if key not in self.measured:
            self.measured[key] = cost(self.call if module is self.head else module, row)
        found: Cost = self.measured[key]
        return found

    def to_grids(self, cells: Tensor) -> Tensor:
        """Return cells ``(m, h*w, d)`` as grids ``(m, d, h, w)``."""
        return cells.transpose(1, 2).reshape(len(cells), cells.shape[2], *self.shape)

    def swapped(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return the cells ``(m, h*w, d)`` after each swap."""
        cells = prepared.cells[state].clone()
        cells[torch.arange(len(i), device=i.device), i] = self.donors[j]
        return cells

    def check(self, logits: Tensor) -> Tensor:
        """Return logits in float32; NaN or infinity is an error."""
        if not bool(torch.isfinite(logits).all()):
            raise NonFiniteError(
                "the head returned NaN or infinite logits.",
                "Check its weights, and that it gets the features it was trained on.",
            )
        return logits.float()
