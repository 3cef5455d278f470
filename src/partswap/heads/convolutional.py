"""Heads of convolutions before pooling (ResNet): a swap is felt in 3x3 cells, then in 5x5; only those are computed.

Around every swapped cell there is a window that grows with each 3x3 convolution. Outside the window nothing changes, so
its values are those of the unedited grid, which are computed once per edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partswap.heads.base import Prepared, SwapEvaluator
from partswap.heads.costs import activation_bytes, module_macs
from partswap.heads.structure import Add, Conv, Pointwise, Structure

#: Candidates are worked on in blocks of about this many bytes, so that they stay near the processor.
BLOCK_BYTES = 64 * 2**20
#: Fewer candidates than this per kind of place are computed all together, with cells beyond the border masked.
MANY = 24
_OFFSETS = [(down, right) for down in range(3) for right in range(3)]


@dataclass
class ConvolutionalState(Prepared):
    """Remembers every value of the unedited grids, each ``(states, h + 2r, w + 2r, d)`` with a border of r zero cells.

    `box` is the sum of the last value over the window around every cell, ``(states, h, w, d)``.
    """

    values: list[Tensor]
    mean: Tensor
    box: Tensor


class Window(NamedTuple):
    """Cells around a swapped one, counted up, down, left and right of it."""

    up: int
    down: int
    left: int
    right: int

    def grown(self, limit: Window) -> Window:
        """Return the window one cell larger on every side, but not beyond `limit`."""
        return Window(*(min(a + 1, b) for a, b in zip(self, limit, strict=True)))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in cells."""
        return self.up + 1 + self.down, self.left + 1 + self.right

    def inside(self, outer: Window) -> tuple[slice, slice]:
        """Return where this window lies within a larger one."""
        top, left = outer.up - self.up, outer.left - self.left
        height, width = self.size
        return slice(top, top + height), slice(left, left + width)


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

    # -- the unedited grid ------------------------------------------------------------------------------------------

    def prepare(self, cells: Tensor) -> Prepared:
        """Run all operations on the whole grids and keep every value."""
        values = self._values(cells)
        mean = values[-1].mean((1, 2))
        r = self.border
        padded = [F.pad(v, (0, 0, r, r, r, r)) for v in values]
        side = 2 * r + 1
        box = F.avg_pool2d(padded[-1].permute(0, 3, 1, 2), side, 1, divisor_override=1).permute(0, 2, 3, 1)
        return ConvolutionalState(cells, self.check(self.tail(mean)), padded, mean, box)

    def run(self, cells: Tensor) -> Tensor:
        """Return the logits of grids; the same as the head's, in fewer and plainer steps."""
        logits: Tensor = self.tail(self._values(cells)[-1].mean((1, 2)))
        return logits

    def _values(self, cells: Tensor) -> list[Tensor]:
        """Return the grids and the output of every operation on them."""
        values = [cells.view(len(cells), *self.shape, -1)]
        for operation in self.operations:
            values.append(self._whole(operation, values))
        return values

    def _whole(self, operation: Conv | Pointwise | Add, values: list[Tensor]) -> Tensor:
        x = values[operation.source]
        if isinstance(operation, Pointwise):
            return operation.apply(x)
        if isinstance(operation, Add):
            return x + values[operation.other]
        if operation.reach == 0:
            return x @ operation.weight[0, 0] + operation.bias
        # One product over all nine neighbours: a convolution would first bring weights and values into another layout.
        (h, w), padded = self.shape, F.pad(x, (0, 0, 1, 1, 1, 1))
        neighbours = [padded[:, 2 - down : 2 - down + h, 2 - right : 2 - right + w] for down, right in _OFFSETS]
        flat = torch.cat(neighbours, 3).view(-1, 9 * x.shape[3])
        return torch.addmm(operation.bias, flat, operation.weight.view(flat.shape[1], -1)).view(*x.shape[:3], -1)

    # -- the edited ones --------------------------------------------------------------------------------------------

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Propagate the windows of all candidates, those at the same kind of place together."""
        assert isinstance(prepared, ConvolutionalState)
        r = self.border
        row, col = i // self.shape.w, i % self.shape.w
        room = torch.stack([row, self.shape.h - 1 - row, col, self.shape.w - 1 - col], 1).clamp(max=r)
        code = (room * torch.tensor([1, r + 1, (r + 1) ** 2, (r + 1) ** 3], device=i.device)).sum(1)
        kinds, which = torch.unique(code, return_inverse=True)
        if len(i) < MANY * len(kinds):
            return self._block(prepared, state, row, col, j, Window(r, r, r, r), masked=True)
        out: Tensor | None = None
        for kind in range(len(kinds)):
            mine = (which == kind).nonzero().flatten()
            limit = Window(*room[mine[0]].tolist())
            part = self._block(prepared, state[mine], row[mine], col[mine], j[mine], limit, masked=False)
            if out is None:
                out = part.new_empty(len(i), part.shape[1])
            out[mine] = part
        assert out is not None
        return out

    def _block(
        self,
        prepared: ConvolutionalState,
        state: Tensor,
        row: Tensor,
        col: Tensor,
        j: Tensor,
        limit: Window,
        *,
        masked: bool,
    ) -> Tensor:
        size = self._block_size
        parts = zip(state.split(size), row.split(size), col.split(size), j.split(size), strict=True)
        means = [_Windows(self, prepared, s, a, b, limit, masked).mean(self.donors[c]) for s, a, b, c in parts]
        out: Tensor = self.tail(torch.cat(means))
        return out

    def _window_bytes(self) -> int:
        widths = [self.query.shape[1], *(_width(o, self.operations, self.query.shape[1]) for o in self.operations)]
        cells = [(2 * min(r, self.border) + 1) ** 2 for r in self.reach]
        return 4 * sum(w * c for w, c in zip(widths, cells, strict=True))

    def bytes_per_candidate(self) -> int:
        """Return the tail's need; windows are bounded by the block's size on their own."""
        width = _width(self.operations[-1], self.operations, self.query.shape[1])
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
        width = _width(self.operations[-1], self.operations, self.query.shape[1])
        return total + self.measure(module_macs, self.tail, self.query.new_zeros(1, width))


class _Windows:
    """The windows of some candidates as they pass through the operations."""

    def __init__(
        self,
        evaluator: ConvolutionalEvaluator,
        prepared: ConvolutionalState,
        state: Tensor,
        row: Tensor,
        col: Tensor,
        limit: Window,
        masked: bool,
    ) -> None:
        self.evaluator, self.prepared, self.limit = evaluator, prepared, limit
        self.state, self.row, self.col = state, row, col
        self.masked = masked
        self.places: dict[Window, Tensor] = {}

    def mean(self, donors: Tensor) -> Tensor:
        """Return the mean over cells of the last value, ``(m, d)``, after swapping in `donors` ``(m, d)``."""
        evaluator = self.evaluator
        values = [donors[:, None, None, :]]
        windows = [Window(0, 0, 0, 0)]
        last_use = _last_uses(evaluator.operations)
        for number, operation in enumerate(evaluator.operations, 1):
            value, window = self._apply(operation, number, values, windows, last_use[operation.source] == number)
            values.append(value)
            windows.append(window)
            for old in range(number):
                if last_use[old] == number:
                    values[old] = value.new_empty(0)
        last = values[-1]
        if self.masked and windows[-1].size != (1, 1):
            last = last * self._inside(windows[-1])
        # Beyond the border the unedited values are zero, so the sum over the whole window serves clipped ones too.
        change = last.sum((1, 2)) - self.prepared.box[self.state, self.row, self.col]
        return self.prepared.mean[self.state] + change / evaluator.shape.cells

    def _apply(
        self, operation: Conv | Pointwise | Add, number: int, values: list[Tensor], windows: list[Window], free: bool
    ) -> tuple[Tensor, Window]:
        """Return an operation's value in the windows; `free` says that nothing else needs its source."""
        x, window = values[operation.source], windows[operation.source]
        if isinstance(operation, Pointwise):
            if free and operation.source > 0 and operation.apply_in_place is not None:
                return operation.apply_in_place(x), window
            return operation.apply(x), window
        if isinstance(operation, Add):
            return self._add(operation, values, windows)
        if operation.reach == 0:
            flat = torch.addmm(operation.bias, x.reshape(-1, x.shape[-1]), operation.weight[0, 0])
            return flat.view(*x.shape[:-1], -1), window
        change = self._change(operation.source, x, window)
        grown = window.grown(self.limit)
        out = self._unedited(number, grown)
        height, width = window.size
        flat = change.reshape(-1, change.shape[-1])
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                # Rows of the window whose neighbour at (dy, dx) lies inside the grown window.
                top, left = grown.up - window.up + dy, grown.left - window.left + dx
                y0, x0 = max(0, -top), max(0, -left)
                y1, x1 = min(height, grown.size[0] - top), min(width, grown.size[1] - left)
                if y0 >= y1 or x0 >= x1:
                    continue
                whole = (y0, x0, y1, x1) == (0, 0, height, width)
                rows = flat if whole else change[:, y0:y1, x0:x1].reshape(-1, change.shape[-1])
                part = (rows @ operation.weight[dy + 1, dx + 1]).view(len(change), y1 - y0, x1 - x0, -1)
                out[:, top + y0 : top + y1, left + x0 : left + x1] += part
        return out, grown

    def _add(self, operation: Add, values: list[Tensor], windows: list[Window]) -> tuple[Tensor, Window]:
        big, small = operation.source, operation.other
        if windows[big].size < windows[small].size:
            big, small = small, big
        outer, inner = windows[big], windows[small]
        if outer == inner:
            return values[big] + values[small], outer
        out = self._unedited(small, outer)
        out += values[big]  # the larger one, and the rest of the smaller one as it was
        rows, cols = inner.inside(outer)
        out[:, rows, cols] += self._change(small, values[small], inner)
        return out, outer

    def _unedited(self, number: int, window: Window) -> Tensor:
        """Return a copy of a value of the unedited grid in every candidate's window, ``(m, height, width, d)``."""
        value = self.prepared.values[number]
        if window not in self.places:
            r, (high, wide) = self.evaluator.border, value.shape[1:3]
            down = torch.arange(window.size[0], device=self.row.device)
            right = torch.arange(window.size[1], device=self.row.device)
            rows = (self.state * high + self.row + r - window.up)[:, None] + down
            cols = (self.col + r - window.left)[:, None] + right
            self.places[window] = (rows[:, :, None] * wide + cols[:, None, :]).flatten()
        flat = value.flatten(0, 2).index_select(0, self.places[window])
        return flat.view(len(self.row), *window.size, value.shape[3])

    def _change(self, number: int, value: Tensor, window: Window) -> Tensor:
        """Return a value minus the unedited one; zero beyond the grid's border."""
        change = self._unedited(number, window)
        torch.sub(value, change, out=change)
        if self.masked and window.size != (1, 1):
            change *= self._inside(window)
        return change

    def _inside(self, window: Window) -> Tensor:
        """Return which cells of the windows lie on the grid, ``(m, height, width, 1)``."""
        shape, device = self.evaluator.shape, self.row.device
        rows = (self.row - window.up)[:, None] + torch.arange(window.size[0], device=device)
        cols = (self.col - window.left)[:, None] + torch.arange(window.size[1], device=device)
        inside = ((rows >= 0) & (rows < shape.h))[:, :, None] & ((cols >= 0) & (cols < shape.w))[:, None, :]
        return inside[..., None]


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


def _width(operation: Conv | Pointwise | Add, operations: tuple[Conv | Pointwise | Add, ...], channels: int) -> int:
    """Return how many channels an operation gives."""
    if isinstance(operation, Conv):
        return int(operation.weight.shape[3])
    return channels if operation.source == 0 else _width(operations[operation.source - 1], operations, channels)


def _last_uses(operations: tuple[Conv | Pointwise | Add, ...]) -> list[int]:
    """Return, for each value, the number of the last operation that reads it (0: none)."""
    last = [0] * (len(operations) + 1)
    for number, operation in enumerate(operations, 1):
        last[operation.source] = number
        if isinstance(operation, Add):
            last[operation.other] = number
    return last
