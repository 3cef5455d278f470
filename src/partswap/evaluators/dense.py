"""Any head: build the edited grids and run the whole head on them, in chunks."""

from __future__ import annotations

import torch
from torch import Tensor

from partswap.evaluators.base import Prepared, SwapEvaluator
from partswap.evaluators.costs import activation_bytes, module_macs


class DenseEvaluator(SwapEvaluator):
    """Exact for every head, and the yardstick for all others."""

    name = "dense"

    def prepare(self, cells: Tensor) -> Prepared:
        """Run the head on the grids."""
        parts = [self.run(c) for c in cells.split(self.chunk_size)]
        return Prepared(cells, self.check(torch.cat(parts)))

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Build every edited grid and run the head on it."""
        return self.run(self.swapped(prepared, state, i, j))

    def bytes_per_candidate(self) -> int:
        """Return what one more grid in the batch costs; building it holds it twice."""
        grid = self.to_grids(self.query[None])
        return self.measure(activation_bytes, self.head, grid) + 2 * grid.numel() * grid.element_size()

    def macs_per_candidate(self) -> float:
        """Return the multiply-adds of the head on one grid."""
        return self.measure(module_macs, self.head, self.to_grids(self.query[None]))
