"""Heads that average the grid first: a swap moves the mean by ``(f'_j - f_i) / hw``.

If one linear layer follows, logits move by ``W (f'_j - f_i) / hw``, and even the softmax of all pairs is one matrix
product: ``sum_c exp(a_ic + b_jc) = exp(a) @ exp(b).T``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, fx, nn

from partswap.evaluators.base import DtypeAdapter, Prepared, SwapEvaluator
from partswap.evaluators.costs import activation_bytes, module_macs
from partswap.evaluators.structure import Structure

#: Below so many candidates it is quicker to look at each than to make the table of all.
FEW = 256


@dataclass
class PooledState(Prepared):
    """Remembers the mean over cells, ``(states, d)``, and what each cell adds to the logits, if the tail is linear."""

    mean: Tensor
    shares: Tensor | None


class PooledEvaluator(SwapEvaluator):
    """Mean over cells, then anything on the resulting vector."""

    name = "pooled"

    def __init__(
        self, head: nn.Module, query: Tensor, distractors: Tensor, memory_bytes: int, structure: Structure
    ) -> None:
        super().__init__(head, query, distractors, memory_bytes)
        self.tail = structure.tail
        self.linear = _only_linear(self.tail.body if isinstance(self.tail, DtypeAdapter) else self.tail)

    def prepare(self, cells: Tensor) -> Prepared:
        """Take the mean and run the tail on it."""
        mean = cells.mean(1)
        shares = cells @ self.linear[0].T / self.shape.cells if self.linear is not None else None
        return PooledState(cells, self.check(self.tail(mean)), mean, shares)

    def advance(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Prepared:
        """Move the mean, and replace one cell's share."""
        assert isinstance(prepared, PooledState)
        cells, rows = self.swapped(prepared, state, i, j), torch.arange(len(i), device=i.device)
        mean = prepared.mean[state] + (self.donors[j] - prepared.cells[state, i]) / self.shape.cells
        shares = None
        if prepared.shares is not None:
            shares = prepared.shares[state]
            shares[rows, i] = self._gains[j]
        return PooledState(cells, self.check(self.tail(mean)), mean, shares)

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Move the mean, run the tail."""
        assert isinstance(prepared, PooledState)
        change = (self.donors[j] - prepared.cells[state, i]) / self.shape.cells
        out: Tensor = self.tail(prepared.mean[state] + change)
        return out

    def gradients(self, prepared: Prepared, target: int, *, margins: bool) -> list[Tensor]:
        """Return the gradients; all cells have the same, that of the mean divided by their number."""
        assert isinstance(prepared, PooledState)
        found = self._backward(self.tail, prepared.mean, target, margins)
        return [g[:, None].expand(-1, self.shape.cells, -1) / self.shape.cells for g in found]

    def bytes_per_candidate(self) -> int:
        """Return what the tail needs for one more vector, and the vectors themselves."""
        vectors = 4 * self.query.shape[1] * self.query.element_size()
        return self.measure(activation_bytes, self.tail, self.query[:1]) + vectors

    def macs_per_candidate(self) -> float:
        """Return the multiply-adds of one candidate."""
        if self.linear is not None:
            return float(len(self.linear[1]))
        return self.measure(module_macs, self.tail, self.query[:1])

    def evaluate(
        self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor, target: int, *, flips: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Evaluate in closed form where the tail is linear and the numbers allow it."""
        assert isinstance(prepared, PooledState)
        if prepared.shares is None or len(i) < FEW or self.activation != "softmax":
            return super().evaluate(prepared, state, i, j, target, flips=flips)
        scores = torch.empty(len(i), dtype=torch.float32, device=i.device)
        flipped = torch.zeros(len(i), dtype=torch.bool, device=i.device)
        for s in range(len(prepared.cells)):
            mine = (state == s).nonzero().flatten()
            left = prepared.logits[s] - prepared.shares[s]  # (h*w, classes)
            table = _log_target(left, self._gains, target)
            if table is None:  # the exponentials would underflow
                chunk = super().evaluate(prepared, state[mine], i[mine], j[mine], target, flips=flips)
                scores[mine], flipped[mine] = chunk
                continue
            scores[mine] = table[i[mine], j[mine]]
            if flips:
                # Above a half it must flip, below 1 / classes it cannot; only in between the logits are needed.
                likely = scores[mine].exp()
                flipped[mine[likely > 0.5 + 1e-4]] = True
                open_ones = mine[(likely <= 0.5 + 1e-4) & (likely >= (1 - 1e-4) / left.shape[1])]
                for chunk_ in open_ones.split(self.chunk_size):
                    logits = left[i[chunk_]] + self._gains[j[chunk_]]
                    flipped[chunk_] = logits.argmax(1) == target
        return scores, flipped

    @cached_property
    def _gains(self) -> Tensor:
        """What each donor adds to the logits wherever it goes, ``(n*h*w, classes)``."""
        assert self.linear is not None
        return self.donors @ self.linear[0].T / self.shape.cells


def _only_linear(tail: nn.Module) -> tuple[Tensor, Tensor] | None:
    """Return weight and bias if the tail is one linear layer (and things that do nothing)."""
    if not isinstance(tail, fx.GraphModule):
        return None
    found: list[nn.Linear] = []
    for node in tail.graph.nodes:
        if node.op in ("placeholder", "output") or getattr(node.target, "__name__", "") in ("_unpool", "clone"):
            continue
        module = tail.get_submodule(str(node.target)) if node.op == "call_module" else None
        flattens = isinstance(module, nn.Flatten) or getattr(node.target, "__name__", node.target) == "flatten"
        if isinstance(module, nn.Linear):
            found.append(module)
        elif not flattens and not isinstance(module, nn.Identity | nn.Dropout):
            return None
    if len(found) != 1:
        return None
    bias = found[0].bias
    weight = found[0].weight.detach().float()
    return weight, bias.detach().float() if bias is not None else weight.new_zeros(len(weight))


def _log_target(left: Tensor, right: Tensor, target: int) -> Tensor | None:
    """Return the target's log probability for all sums of rows, ``(len(left), len(right))``."""
    a_top, b_top = left.max(1, keepdim=True).values, right.max(1, keepdim=True).values
    spread = (a_top - left.min(1, keepdim=True).values).max() + (b_top - right.min(1, keepdim=True).values).max()
    if float(spread) > 80:
        return None
    total = torch.exp(left - a_top) @ torch.exp(right - b_top).T
    top = a_top + b_top.T
    return left[:, target, None] + right[None, :, target] - top - total.log()
