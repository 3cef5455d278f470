"""Heads that begin with flatten and a linear layer (VGG): a swap moves the first layer by ``W_i f'_j - W_i f_i``.

The layer's weights are laid out per cell once. What a donor cell contributes at a place is computed when it is first
asked for and kept for all later edits, as far as memory allows. With few donors all contributions are computed at
once, and screening reads its estimates off them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from partswap.evaluators.base import Gains, Prepared, SwapEvaluator
from partswap.evaluators.costs import activation_bytes, module_macs
from partswap.evaluators.onednn import multiply, with_onednn_linears
from partswap.evaluators.structure import Structure

#: All contributions are computed at once if they take no more multiply-adds than this, about what a few edits take.
CHEAP_TABLE_MACS = 1e10


@dataclass
class FlattenedState(Prepared):
    """Remembers the first layer's output and what each cell gives to it."""

    hidden: Tensor  #: ``(states, hidden)``
    own: Tensor  #: ``(states, h*w, hidden)``


@dataclass(frozen=True)
class FirstLayer:
    """The first linear layer and what follows it."""

    whole: Tensor  #: the layer's own weight, ``(hidden, d * h*w)``, channel first
    per_cell: Tensor  #: the same, each cell's part in one piece, one row per channel: ``(h*w, d, hidden)``
    bias: Tensor  #: ``(hidden,)``
    rest: nn.Module  #: from the layer's output to logits


def first_layer(structure: Structure, cells: int) -> FirstLayer | None:
    """Return the first linear layer of the tail laid out per cell, None if the tail does not begin with one."""
    tail = structure.tail
    if not isinstance(tail, fx.GraphModule):
        return None
    nodes = list(tail.graph.nodes)
    before = [nodes[0]]  # the vector, and what does nothing to it
    while True:
        if len(before[-1].users) != 1:
            return None
        node = next(iter(before[-1].users))
        module = tail.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, nn.Linear):
            break
        if not isinstance(module, nn.Identity | nn.Dropout) and node.target is not torch.clone:
            return None
        before.append(node)
    weight = module.weight.detach().float()  # (hidden, d * h*w), channel first
    hidden, width = weight.shape
    per_cell = _laid_out(weight.view(hidden, width // cells, cells))
    bias = module.bias.detach().float() if module.bias is not None else weight.new_zeros(hidden)
    graph = fx.Graph()
    # A copy, because what follows is often an activation in place, and the vector is needed again.
    copies: dict[fx.Node, fx.Node] = {node: graph.call_function(torch.clone, (graph.placeholder("hidden"),))}
    for other in nodes:
        if other not in copies and other not in before:
            copies[other] = graph.node_copy(other, copies.__getitem__)
    return FirstLayer(weight, per_cell, bias, with_onednn_linears(fx.GraphModule(tail, graph).eval()))


def _laid_out(weight: Tensor, rows: int = 16) -> Tensor:
    """Return ``(hidden, d, cells)`` as a contiguous ``(cells, d, hidden)``; a few rows at a time stay in the cache."""
    hidden, d, cells = weight.shape
    out = weight.new_empty(cells, d, hidden)
    for start in range(0, hidden, rows):
        out[:, :, start : start + rows] = weight[start : start + rows].permute(2, 1, 0)
    return out


class FlattenedEvaluator(SwapEvaluator):
    """Flatten, linear, then anything on the resulting vector."""

    name = "flattened"

    def __init__(
        self, head: nn.Module, query: Tensor, distractors: Tensor, memory_bytes: int, layer: FirstLayer
    ) -> None:
        super().__init__(head, query, distractors, memory_bytes)
        self.layer = layer
        self.hidden = int(layer.bias.shape[0])
        self._pairs = self.shape.cells * len(self.donors)
        self._filled = 0  # how many contributions are kept

    def prepare(self, cells: Tensor) -> Prepared:
        """Run the first layer as a sum over cells, then the rest."""
        own = torch.stack([_given(cells[:, c], weight) for c, weight in enumerate(self.layer.per_cell)], 1)
        hidden = self.layer.bias + own.sum(1)
        return FlattenedState(cells, self.check(self.layer.rest(hidden)), hidden, own)

    def advance(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Prepared:
        """Move the first layer's output; it need not be computed anew."""
        assert isinstance(prepared, FlattenedState)
        gives, own = self._contributions(i, j), prepared.own[state]
        hidden = prepared.hidden[state] + gives - prepared.own[state, i]
        own[torch.arange(len(i), device=i.device), i] = gives
        return FlattenedState(self.swapped(prepared, state, i, j), self.check(self.layer.rest(hidden)), hidden, own)

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Move the first layer's output, run the rest."""
        assert isinstance(prepared, FlattenedState)
        out: Tensor = self.layer.rest(prepared.hidden[state] + self._contributions(i, j) - prepared.own[state, i])
        return out

    def gradients(self, prepared: Prepared, target: int, *, margins: bool) -> list[Tensor]:
        """Go back through the rest, then through the first layer."""
        back = self._hidden_gradients(prepared, target, margins)
        found = _weighted_rows(self.layer.whole, back).view(len(back), -1, self.shape.cells).transpose(1, 2)
        return list(found.split(len(prepared.cells)))

    def gains(self, prepared: Prepared, target: int, *, margins: bool) -> Iterator[Gains]:
        """Read them off the table of contributions if there is one; then the first layer is left alone."""
        assert isinstance(prepared, FlattenedState)
        if not self._has_table:
            yield from super().gains(prepared, target, margins=margins)
            return
        kinds = self._hidden_gradients(prepared, target, margins).split(len(prepared.cells))
        table = self._kept[: len(self._slot)].view(self.shape.cells, -1, self.hidden)
        for own, *back in zip(prepared.own, *kinds, strict=True):
            yield Gains(*(table @ b - (own @ b)[:, None] for b in back))

    def _hidden_gradients(self, prepared: Prepared, target: int, margins: bool) -> Tensor:
        """Return the gradients at the first layer's output, ``(kinds * states, hidden)``."""
        assert isinstance(prepared, FlattenedState)
        return torch.cat(self._backward(self.layer.rest, prepared.hidden, target, margins))

    def bytes_per_candidate(self) -> int:
        """Return what the rest needs for one more vector, and the vectors themselves."""
        return self.measure(activation_bytes, self.layer.rest, self.layer.bias[None]) + 4 * self._vector_bytes

    def macs_per_candidate(self) -> float:
        """Return the multiply-adds of one candidate."""
        rest = self.measure(module_macs, self.layer.rest, self.layer.bias[None])
        return rest + self.query.shape[1] * self.hidden

    def fixed_bytes(self) -> int:
        """Return the weights laid out per cell, and the contributions that may be kept."""
        return self._weight_bytes + len(self._kept) * self._vector_bytes

    @property
    def _weight_bytes(self) -> int:
        return self.layer.per_cell.numel() * self.layer.per_cell.element_size()

    @property
    def _vector_bytes(self) -> int:
        return self.hidden * self.layer.bias.element_size()

    @property
    def _room(self) -> int:
        """Memory for contributions: a share of the budget, but never what one candidate needs."""
        spare = self.memory_bytes - self._weight_bytes - self.bytes_per_candidate()
        return max(0, min(self.memory_bytes // 4, spare // 2))

    @cached_property
    def _kept(self) -> Tensor:
        """Contributions, as many as there is memory for."""
        return self.layer.bias.new_empty(min(self._pairs, self._room // self._vector_bytes), self.hidden)

    @cached_property
    def _has_table(self) -> bool:
        macs = self.layer.per_cell.numel() * len(self.donors)
        return macs <= CHEAP_TABLE_MACS and len(self._kept) == self._pairs

    @cached_property
    def _slot(self) -> Tensor:
        """Where each pair's contribution is kept, negative if it is not yet; in a table all are, in order."""
        if not self._has_table:
            return torch.full((self._pairs,), -1, device=self.donors.device)
        for kept, weight in zip(self._kept.split(len(self.donors)), self.layer.per_cell, strict=True):
            kept.copy_(multiply(self.donors, weight))
        return torch.arange(self._pairs, device=self.donors.device)

    def _contributions(self, i: Tensor, j: Tensor) -> Tensor:
        """Return what donor ``j[k]`` contributes at cell ``i[k]``, ``(m, hidden)``."""
        wanted = i * len(self.donors) + j
        slots = self._slot[wanted]
        if bool((slots >= 0).all()):
            return self._kept[slots]
        pairs, which = torch.unique(wanted, return_inverse=True)
        slots = self._slot[pairs]
        out = self._kept.new_empty(len(pairs), self.hidden)
        known, unknown = (slots >= 0).nonzero().flatten(), (slots < 0).nonzero().flatten()
        out[known] = self._kept[slots[known]]
        for cell, places in _groups(pairs[unknown] // len(self.donors)):
            mine = unknown[places]
            out[mine] = _given(self.donors[pairs[mine] % len(self.donors)], self.layer.per_cell[cell])
        fitting = unknown[: len(self._kept) - self._filled]
        slots = torch.arange(self._filled, self._filled + len(fitting), device=pairs.device)
        self._kept[slots], self._slot[pairs[fitting]] = out[fitting], slots
        self._filled += len(fitting)
        return out[which]


def _given(cells: Tensor, weight: Tensor) -> Tensor:
    """Return what cells ``(m, d)`` at one place give to the first layer, ``(m, hidden)``."""
    # A product of few rows waits for memory: reading the rows of channels that are on is quicker up to twice the whole.
    return _weighted_rows(weight, cells, most=2)


def _weighted_rows(matrix: Tensor, weights: Tensor, most: int = 1) -> Tensor:
    """Return ``weights @ matrix``; for few weights, rows of zero weight (units that are off) are not even read.

    `most` says how many times as many rows as there are may be read one by one.
    """
    if int(weights.count_nonzero()) > most * len(matrix):
        return multiply(weights, matrix)
    bag, row = weights.nonzero(as_tuple=True)
    starts = torch.searchsorted(bag, torch.arange(len(weights), device=bag.device))
    return F.embedding_bag(row, matrix, starts, mode="sum", per_sample_weights=weights[bag, row])


def _groups(cells: Tensor) -> list[tuple[int, Tensor]]:
    """Return every cell in a sorted list of them, and where in the list it stands."""
    found, counts = torch.unique_consecutive(cells, return_counts=True)
    places = torch.arange(len(cells), device=cells.device)
    return list(zip(found.tolist(), places.split(counts.tolist()), strict=True))
