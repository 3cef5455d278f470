"""Any head: build the edited grids and run the whole head on them, in chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from partswap.heads.base import Prepared, SwapEvaluator


class DenseEvaluator(SwapEvaluator):
    """Exact for every head, and the yardstick for all others."""

    name = "dense"

    def __init__(self, head: nn.Module, query: Tensor, distractors: Tensor, memory_bytes: int) -> None:
        super().__init__(head, query, distractors, memory_bytes)
        self._bytes: int | None = None

    def prepare(self, cells: Tensor) -> Prepared:
        """Run the head on the grids."""
        parts = [self.head(self.to_grids(c)) for c in cells.split(self.chunk_size())]
        return Prepared(cells, self.check(torch.cat(parts)))

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Build every edited grid and run the head on it."""
        out: Tensor = self.head(self.to_grids(self.swapped(prepared, state, i, j)))
        return out

    def bytes_per_candidate(self) -> int:
        """Measure, once, what one more grid in the batch costs."""
        if self._bytes is None:
            grid = self.to_grids(self.query[None])
            one, three = (_allocated(self.head, grid.expand(k, -1, -1, -1).contiguous()) for k in (1, 3))
            # Building the grid holds it twice (the copy and its channel-first layout).
            self._bytes = max((three - one) // 2, 1) + 2 * grid.numel() * grid.element_size()
        return self._bytes


class _CountBytes(TorchDispatchMode):
    """Adds up the bytes of everything computed: an upper bound of what is alive at any moment."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        inputs = {id(t) for t in tree_leaves((args, kwargs))}
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and not leaf._is_view() and id(leaf) not in inputs:
                self.total += leaf.numel() * leaf.element_size()
        return out


def _allocated(head: nn.Module, grids: Tensor) -> int:
    counter = _CountBytes()  # type: ignore[no-untyped-call]
    with torch.no_grad(), counter:
        head(grids)
    return counter.total
