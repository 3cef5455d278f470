"""Heads that begin with flatten and a linear layer (VGG): a swap moves the first layer by ``W_i (f'_j - f_i)``.

The layer's weights are laid out per cell once. What each donor cell would contribute at each place is computed once
per explanation and reused by all later edits, if it fits into memory; with screening only the few contributions that
are looked at are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, fx, nn

from partswap.heads.base import Prepared, SwapEvaluator
from partswap.heads.costs import activation_bytes, module_macs
from partswap.heads.structure import Structure


@dataclass
class FlattenedState(Prepared):
    """Remembers the first layer's output, ``(states, hidden)``."""

    hidden: Tensor


@dataclass(frozen=True)
class FirstLayer:
    """The first linear layer and what follows it.

    Attributes
    ----------
    whole : Tensor
        The layer's own weight, ``(hidden, d * h*w)``, channel first.
    per_cell : Tensor
        The same, laid out so that each cell's part is in one piece: ``(h*w, hidden, d)``.
    bias : Tensor
        ``(hidden,)``.
    rest : torch.nn.Module
        From the layer's output to logits.
    """

    whole: Tensor
    per_cell: Tensor
    bias: Tensor
    rest: nn.Module

    @cached_property
    def rest_bytes(self) -> int:
        """Memory that one more vector takes in the rest."""
        return activation_bytes(self.rest, self.bias[None])

    @cached_property
    def rest_macs(self) -> float:
        """Multiply-adds of the rest."""
        return module_macs(self.rest, self.bias[None])


def first_layer(structure: Structure, cells: int) -> FirstLayer | None:
    """Return the first linear layer of the tail laid out per cell, None if the tail does not begin with one."""
    tail = structure.tail
    if not isinstance(tail, fx.GraphModule):
        return None
    nodes = list(tail.graph.nodes)
    entry = nodes[0]
    current = entry
    while True:
        if len(current.users) != 1:
            return None
        node = next(iter(current.users))
        module = tail.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, nn.Identity | nn.Dropout) or node.target is torch.clone:
            current = node
            continue
        if not isinstance(module, nn.Linear):
            return None
        break
    weight = module.weight.detach().float()  # (hidden, d * h*w), channel first
    hidden, width = weight.shape
    per_cell = _laid_out(weight.view(hidden, width // cells, cells))
    bias = module.bias.detach().float() if module.bias is not None else weight.new_zeros(hidden)
    graph = fx.Graph()
    # A copy, because what follows is often an activation in place, and the vector is needed again.
    copies: dict[fx.Node, fx.Node] = {node: graph.call_function(torch.clone, (graph.placeholder("hidden"),))}
    before = {entry, current, *_between(entry, current)}
    for other in nodes:
        if other not in copies and other not in before:
            copies[other] = graph.node_copy(other, copies.__getitem__)
    return FirstLayer(weight, per_cell, bias, fx.GraphModule(tail, graph).eval())


def _laid_out(weight: Tensor, rows: int = 32) -> Tensor:
    """Return ``(hidden, d, cells)`` as a contiguous ``(cells, hidden, d)``; a few rows at a time stay in the cache."""
    hidden, d, cells = weight.shape
    out = weight.new_empty(cells, hidden, d)
    for start in range(0, hidden, rows):
        part = weight[start : start + rows].transpose(1, 2).contiguous()
        out[:, start : start + rows] = part.transpose(0, 1)
    return out


def _between(first: fx.Node, last: fx.Node) -> list[fx.Node]:
    """Return the nodes of the chain from `first` to `last`."""
    chain = []
    while first is not last:
        chain.append(first)
        first = next(iter(first.users))
    return chain


class FlattenedEvaluator(SwapEvaluator):
    """Flatten, linear, then anything on the resulting vector."""

    name = "flattened"

    def __init__(
        self, head: nn.Module, query: Tensor, distractors: Tensor, memory_bytes: int, layer: FirstLayer
    ) -> None:
        super().__init__(head, query, distractors, memory_bytes)
        self.layer = layer
        self.hidden = int(layer.bias.shape[0])
        self._table: Tensor | None = None

    def prepare(self, cells: Tensor) -> Prepared:
        """Run the first layer as a sum over cells, then the rest."""
        flat = cells.transpose(1, 2).flatten(1)  # channel first, as the layer has it
        hidden = torch.addmm(self.layer.bias, flat, self.layer.whole.T)
        return FlattenedState(cells, self.check(self.layer.rest(hidden)), hidden)

    def advance(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Prepared:
        """Move the first layer's output; it need not be computed anew."""
        hidden = self._moved(prepared, state, i, j)
        cells = self.swapped(prepared, state, i, j)
        return FlattenedState(cells, self.check(self.layer.rest(hidden)), hidden)

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Move the first layer's output, run the rest."""
        out: Tensor = self.layer.rest(self._moved(prepared, state, i, j))
        return out

    def gradients(self, prepared: Prepared, target: int, *, leads: bool) -> list[Tensor]:
        """Go back through the rest, then through the first layer, whose weights are read only once."""
        assert isinstance(prepared, FlattenedState)
        back = torch.cat(self._backward(self.layer.rest, prepared.hidden, target, leads))
        found = (back @ self.layer.whole).view(len(back), -1, self.shape.cells).transpose(1, 2)
        return list(found.split(len(prepared.cells)))

    def bytes_per_candidate(self) -> int:
        """Return what the rest needs for one more vector, and the vectors themselves."""
        return self.layer.rest_bytes + 3 * self.hidden * self.layer.bias.element_size()

    def macs_per_candidate(self) -> float:
        """Return the multiply-adds of one candidate."""
        return self.layer.rest_macs + self.query.shape[1] * self.hidden

    def fixed_bytes(self) -> int:
        """Return the weights laid out per cell, and the table of contributions if it is kept."""
        weights = self.layer.per_cell.numel() * self.layer.per_cell.element_size()
        return weights + (self._table_bytes() if self._keeps_table() else 0)

    def _table_bytes(self) -> int:
        return self.shape.cells * len(self.donors) * self.hidden * self.donors.element_size()

    def _keeps_table(self) -> bool:
        return self._table_bytes() <= self.memory_bytes // 4

    def _moved(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return the first layer's output after each swap, ``(m, hidden)``."""
        assert isinstance(prepared, FlattenedState)
        out = prepared.hidden[state]
        for cell, places in _groups(i):
            weight = self.layer.per_cell[cell]  # (hidden, d)
            if 2 * len(places) >= len(self.donors):
                # Many pairs at this cell: what every donor contributes, minus what stands there now.
                gain = self._contributions(cell)
                loss = prepared.cells[:, cell] @ weight.T
                out[places] += gain[j[places]] - loss[state[places]]
            else:
                change = self.donors[j[places]] - prepared.cells[state[places], cell]
                # With a single column a matrix product becomes a much slower matrix-vector product.
                columns = change.T if len(places) > 1 else change.T.expand(-1, 2)
                out[places] += (weight @ columns).T[: len(places)]
        return out

    def _contributions(self, cell: int) -> Tensor:
        """Return what each donor contributes at a cell, ``(n*h*w, hidden)``, from the table if there is room for it."""
        if not self._keeps_table():
            return self.donors @ self.layer.per_cell[cell].T
        if self._table is None:
            self._table = torch.full(
                (self.shape.cells, len(self.donors), self.hidden), torch.nan, device=self.donors.device
            )
        if bool(torch.isnan(self._table[cell, 0, 0])):
            torch.mm(self.donors, self.layer.per_cell[cell].T, out=self._table[cell])
        return self._table[cell]


def _groups(i: Tensor) -> list[tuple[int, Tensor]]:
    """Return the candidates of every query cell: the cell and where in `i` it stands."""
    order = torch.sort(i, stable=True)
    cells, counts = torch.unique_consecutive(order.values, return_counts=True)
    return list(zip(cells.tolist(), order.indices.split(counts.tolist()), strict=True))
