"""Heads of convolutions before pooling (ResNet): a swap is felt in 3x3 cells, then in 5x5; only those are computed.

Around every swapped cell there is a window that grows with each 3x3 convolution. Outside the window nothing changes, so
its values are those of the unedited grid. The cells of all windows are rows of one matrix per value, without
those that lie beyond the grid's border.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partswap.evaluators.base import Prepared, SwapEvaluator
from partswap.evaluators.costs import activation_bytes, module_macs
from partswap.evaluators.onednn import multiply
from partswap.evaluators.structure import Add, Conv, Operation, Pointwise, Structure

#: Candidates are worked on in blocks of about this many bytes, so that they stay near the processor.
BLOCK_BYTES = 64 * 2**20
_OFFSETS = [(down, right) for down in range(3) for right in range(3)]


@dataclass
class ConvolutionalState(Prepared):
    """Remembers the values of the unedited grids that are read again."""

    values: dict[int, Tensor]  #: by number, each ``(states, h*w, d)``
    mean: Tensor  #: of the last value over cells, ``(states, d)``


class ConvolutionalEvaluator(SwapEvaluator):
    """Convolutions, batch norms, activations and residual sums of stride 1, a mean over cells, then anything."""

    name = "convolutional"

    def __init__(
        self, head: nn.Module, query: Tensor, distractors: Tensor, memory_bytes: int, structure: Structure
    ) -> None:
        super().__init__(head, query, distractors, memory_bytes)
        self.operations = structure.operations
        self.tail = structure.tail
        self.reach = _reaches(structure)
        # Beyond the grid there is nothing to feel a swap.
        self.border = min(max(self.reach), max(self.shape) - 1)
        self.needed = _needed(self.operations, self.reach)
        cell = torch.arange(self.shape.cells, device=self.query.device)
        row, col = cell // self.shape.w, cell % self.shape.w
        #: How far each cell is from each other one, ``(h*w, h*w)``, in steps to any of eight neighbours.
        self.distance = torch.maximum((row[:, None] - row).abs(), (col[:, None] - col).abs())
        #: Each cell's neighbour at every offset, ``(9, h*w)``; negative beyond the border.
        self.neighbours = torch.stack([self._neighbour(row + down - 1, col + right - 1) for down, right in _OFFSETS])

    def _neighbour(self, row: Tensor, col: Tensor) -> Tensor:
        inside = (row >= 0) & (row < self.shape.h) & (col >= 0) & (col < self.shape.w)
        return torch.where(inside, row * self.shape.w + col, -1)

    def prepare(self, cells: Tensor) -> Prepared:
        """Run all operations on the whole grids and keep the values that are read again."""
        values, last_use = {0: cells}, _last_uses(self.operations)
        for number, operation in enumerate(self.operations, 1):
            values[number] = self._whole(operation, values)
            _forget(values, number, last_use, self.needed)
        return self._state(cells, values)

    def advance(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Prepared:
        """Copy the values and replace them within the windows."""
        assert isinstance(prepared, ConvolutionalState)
        values = {number: value[state] for number, value in prepared.values.items()}
        for part in torch.arange(len(i), device=i.device).split(self._block_size):
            windows = _Windows(self, prepared, state[part], i[part])
            for number, rows in windows.run(self.donors[j[part]], self.needed).items():
                pack = windows.pack(self.reach[number])
                values[number].flatten(0, 1)[part[pack.candidate] * self.shape.cells + pack.cell] = rows
        return self._state(values[0], values)

    def _state(self, cells: Tensor, values: dict[int, Tensor]) -> Prepared:
        mean = values[len(self.operations)].mean(1)
        return ConvolutionalState(cells, self.check(self.tail(mean)), values, mean)

    def _whole(self, operation: Operation, values: dict[int, Tensor]) -> Tensor:
        x = values[operation.source]
        if isinstance(operation, Pointwise):
            return operation.apply(x)
        if isinstance(operation, Add):
            return x + values[operation.other]
        if operation.reach == 0:
            return multiply(x, operation.weight[0, 0], operation.bias)
        # One product over all nine neighbours: a convolution would first bring weights and values into another layout.
        (h, w), padded = self.shape, F.pad(x.view(len(x), *self.shape, -1), (0, 0, 1, 1, 1, 1))
        neighbours = [padded[:, 2 - down : 2 - down + h, 2 - right : 2 - right + w] for down, right in _OFFSETS]
        flat = torch.cat(neighbours, 3).view(-1, 9 * x.shape[2])
        return multiply(flat, operation.weight.view(flat.shape[1], -1), operation.bias).view(*x.shape[:2], -1)

    def gradients(self, prepared: Prepared, target: int, *, margins: bool) -> list[Tensor]:
        """Go back through the tail, then through the operations, whose values are known: nothing is run again."""
        assert isinstance(prepared, ConvolutionalState)
        found = torch.stack(self._backward(self.tail, prepared.mean, target, margins))  # (kinds, states, d)
        size = max(1, BLOCK_BYTES // (4 * len(found) * self.shape.cells * sum(self._widths)))
        parts = [slice(first, first + size) for first in range(0, found.shape[1], size)]
        return list(torch.cat([self._back(found[:, p], prepared.values, p) for p in parts], 1))

    def _back(self, found: Tensor, values: dict[int, Tensor], states: slice) -> Tensor:
        """Return gradients ``(kinds, states, h*w, d)`` at the grid, given those at the mean of the last value."""
        cells = self.shape.cells
        gradients = {len(self.operations): (found / cells)[:, :, None].expand(-1, -1, cells, -1)}
        for number, operation in reversed(list(enumerate(self.operations, 1))):
            out = gradients.pop(number, None)
            if out is None:  # no operation reads it
                continue
            if isinstance(operation, Add):
                arrived = [(operation.source, out), (operation.other, out)]
            elif isinstance(operation, Pointwise):
                arrived = [(operation.source, _pointwise_back(operation, number, values, states, out))]
            else:
                arrived = [(operation.source, self._conv_back(operation, out))]
            for source, gradient in arrived:
                gradients[source] = gradients[source] + gradient if source in gradients else gradient
        return gradients[0]

    def _conv_back(self, operation: Conv, out: Tensor) -> Tensor:
        weight = operation.weight
        if operation.reach == 0:
            return multiply(out, weight[0, 0].T)
        (h, w), d = self.shape, weight.shape[2]
        parts = multiply(out.reshape(-1, out.shape[-1]), weight.view(9 * d, -1).T).view(-1, h, w, 9, d)
        padded = parts.new_zeros(len(parts), h + 2, w + 2, d)
        for number, (down, right) in enumerate(_OFFSETS):
            padded[:, 2 - down : 2 - down + h, 2 - right : 2 - right + w] += parts[:, :, :, number]
        return padded[:, 1:-1, 1:-1].reshape(*out.shape[:3], d)

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Propagate the windows of all candidates."""
        assert isinstance(prepared, ConvolutionalState)
        size = self._block_size
        parts = zip(state.split(size), i.split(size), j.split(size), strict=True)
        means = [_Windows(self, prepared, s, a).mean(self.donors[b]) for s, a, b in parts]
        out: Tensor = self.tail(torch.cat(means))
        return out

    @cached_property
    def _widths(self) -> list[int]:
        """Channels of every value."""
        channels = int(self.query.shape[1])
        return [channels, *(_width(o, self.operations, channels) for o in self.operations)]

    def _window_bytes(self) -> int:
        cells = [(2 * min(r, self.border) + 1) ** 2 for r in self.reach]
        return 4 * sum(w * c for w, c in zip(self._widths, cells, strict=True))

    def bytes_per_candidate(self) -> int:
        """Return the tail's need; windows are bounded by the block's size on their own."""
        width = self._widths[-1]
        return self.measure(activation_bytes, self.tail, self.query.new_zeros(1, width)) + 4 * width

    def fixed_bytes(self) -> int:
        """Return the need of one block of windows, of which a few steps are alive at once."""
        return 2 * self._block_size * self._window_bytes()

    @cached_property
    def _block_size(self) -> int:
        """How many windows are worked on at a time: a share of the budget, but never what the tail needs for one."""
        spare = self.memory_bytes - self.bytes_per_candidate()
        return max(1, min(BLOCK_BYTES, self.memory_bytes // 4, spare // 2) // self._window_bytes())

    def macs_per_candidate(self) -> float:
        """Return the multiply-adds of one candidate away from the border."""
        total = 0.0
        for operation, reach in zip(self.operations, self.reach[1:], strict=True):
            if isinstance(operation, Conv):
                before = (2 * min(self.reach[operation.source], self.border) + 1) ** 2
                after = (2 * min(reach, self.border) + 1) ** 2
                total += operation.weight.numel() * (before if operation.reach else after)
        return total + self.measure(module_macs, self.tail, self.query.new_zeros(1, self._widths[-1]))


@dataclass(frozen=True)
class _Pack:
    """The cells on the grid of the windows of one size: one row each, those of the first candidate first."""

    candidate: Tensor  #: of each row
    cell: Tensor  #: of each row
    place: Tensor  #: of each row: where its cell stands among the cells of all unedited grids
    row: Tensor  #: ``(candidates * h*w,)``: the row of every cell of every candidate, if it has one


class _Windows:
    """The windows of some candidates as they pass through the operations."""

    def __init__(
        self, evaluator: ConvolutionalEvaluator, prepared: ConvolutionalState, state: Tensor, i: Tensor
    ) -> None:
        self.evaluator, self.prepared, self.state, self.i = evaluator, prepared, state, i
        self.packs: dict[int, _Pack] = {}

    def pack(self, reach: int) -> _Pack:
        """Return the cells within `reach` of the swapped ones."""
        reach, cells = min(reach, self.evaluator.border), self.evaluator.shape.cells
        if reach not in self.packs:
            inside = (self.evaluator.distance <= reach)[self.i].flatten()
            flat = inside.nonzero().flatten()
            candidate, cell = flat // cells, flat % cells
            self.packs[reach] = _Pack(candidate, cell, self.state[candidate] * cells + cell, inside.cumsum(0) - 1)
        return self.packs[reach]

    def mean(self, donors: Tensor) -> Tensor:
        """Return the mean over cells of the last value, ``(m, d)``, after swapping in `donors` ``(m, d)``."""
        last = len(self.evaluator.operations)
        pack = self.pack(self.evaluator.reach[last])
        change = self._change(last, self.run(donors, {last})[last], pack)
        total = change.new_zeros(len(donors), change.shape[1]).index_add_(0, pack.candidate, change)
        return self.prepared.mean[self.state] + total / self.evaluator.shape.cells

    def run(self, donors: Tensor, wanted: Collection[int]) -> dict[int, Tensor]:
        """Return the rows of the wanted values after swapping in `donors` ``(m, d)``."""
        operations = self.evaluator.operations
        values, last_use = {0: donors}, _last_uses(operations)
        for number, operation in enumerate(operations, 1):
            free = last_use[operation.source] == number and operation.source not in wanted
            values[number] = self._apply(operation, number, values, free and operation.source > 0)
            _forget(values, number, last_use, wanted)
        return values

    def _apply(self, operation: Operation, number: int, values: dict[int, Tensor], free: bool) -> Tensor:
        """Return an operation's value in the windows; `free` says that its source may be overwritten."""
        x = values[operation.source]
        if isinstance(operation, Pointwise):
            in_place = operation.apply_in_place if free else None
            return operation.apply(x) if in_place is None else in_place(x)
        if isinstance(operation, Add):
            return self._add(operation, values)
        if operation.reach == 0:
            return multiply(x, operation.weight[0, 0], operation.bias)
        reach = self.evaluator.reach
        pack, grown = self.pack(reach[operation.source]), self.pack(reach[number])
        change, out = self._change(operation.source, x, pack), self._unedited(number, grown)
        reached = self.evaluator.neighbours[:, pack.cell]
        for cell, weight in zip(reached, operation.weight.flatten(0, 1), strict=True):
            inside = (cell >= 0).nonzero().flatten()
            rows = change if len(inside) == len(change) else change[inside]
            felt = grown.row[pack.candidate[inside] * self.evaluator.shape.cells + cell[inside]]
            out.index_add_(0, felt, multiply(rows, weight))
        return out

    def _add(self, operation: Add, values: dict[int, Tensor]) -> Tensor:
        reach = self.evaluator.reach
        small, big = sorted((operation.source, operation.other), key=lambda number: reach[number])
        inner, outer = self.pack(reach[small]), self.pack(reach[big])
        if inner is outer:
            return values[big] + values[small]
        out = self._unedited(small, outer)
        out[outer.row[inner.candidate * self.evaluator.shape.cells + inner.cell]] = values[small]
        return out.add_(values[big])

    def _unedited(self, number: int, pack: _Pack) -> Tensor:
        """Return a copy of a value of the unedited grids in every window."""
        return self.prepared.values[number].flatten(0, 1).index_select(0, pack.place)

    def _change(self, number: int, value: Tensor, pack: _Pack) -> Tensor:
        """Return a value minus the unedited one."""
        change = self._unedited(number, pack)
        return torch.sub(value, change, out=change)


def _forget(values: dict[int, Tensor], number: int, last_use: list[int], wanted: Collection[int]) -> None:
    """Forget values that no operation after `number` reads, unless they are wanted."""
    for old in [old for old in values if last_use[old] <= number and old not in wanted]:
        del values[old]


def _pointwise_back(operation: Pointwise, number: int, values: dict[int, Tensor], states: slice, out: Tensor) -> Tensor:
    """Return the gradients before an operation, given those after it, ``(kinds, states, h*w, d)``."""
    if operation.apply_in_place is torch.relu_:
        return out * (values[number][states] > 0)
    with torch.enable_grad():
        x = values[operation.source][states].detach().requires_grad_()
        y = operation.apply(x)
        return torch.stack([torch.autograd.grad(y, x, kind, retain_graph=True)[0] for kind in out])


def _needed(operations: tuple[Operation, ...], reach: list[int]) -> frozenset[int]:
    """Return the numbers of the values of the unedited grid that are read after it was run."""
    needed = {0, len(operations)}
    for number, operation in enumerate(operations, 1):
        if isinstance(operation, Conv) and operation.reach > 0:
            needed |= {operation.source, number}
        elif isinstance(operation, Add):
            needed.add(min(operation.source, operation.other, key=lambda n: reach[n]))
        elif isinstance(operation, Pointwise):  # its gradient
            needed.add(number if operation.apply_in_place is torch.relu_ else operation.source)
    return frozenset(needed)


def _reaches(structure: Structure) -> list[int]:
    """Return how far a swap is felt in each value, the grid itself first."""
    reach = [0]
    for operation in structure.operations:
        far = reach[operation.source]
        if isinstance(operation, Add):
            far = max(far, reach[operation.other])
        if isinstance(operation, Conv):
            far += operation.reach
        reach.append(far)
    return reach


def _width(operation: Operation, operations: tuple[Operation, ...], channels: int) -> int:
    """Return how many channels an operation gives."""
    if isinstance(operation, Conv):
        return int(operation.weight.shape[3])
    return channels if operation.source == 0 else _width(operations[operation.source - 1], operations, channels)


def _last_uses(operations: tuple[Operation, ...]) -> list[int]:
    """Return, for each value, the number of the last operation that reads it (0: none)."""
    last = [0] * (len(operations) + 1)
    for number, operation in enumerate(operations, 1):
        last[operation.source] = number
        if isinstance(operation, Add):
            last[operation.other] = number
    return last
