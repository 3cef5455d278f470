"""What running a module costs: memory per row, and multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from partswap.evaluators.onednn import onednn_operation

#: A module, or what calls one: from rows to rows.
Run = Callable[[Tensor], Any]


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


class _CountFlops(TorchDispatchMode):
    """Adds up floating-point operations by torch's own formulas.

    torch's `FlopCounterMode` also watches modules, by hooks that want a gradient of every input that is part of a
    parameter; without gradients they fail on a head that calls a module on a learned token (attention pooling).
    """

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        count = _flops_of_product if func is onednn_operation() else flop_registry.get(func._overloadpacket)
        if count is None:
            with self:  # in inference mode operations arrive whole
                out = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if out is NotImplemented else out
        out = func(*args, **kwargs)
        self.total += count(*args, **kwargs, out_val=out)
        return out


def _flops_of_product(rows: Tensor, matrix: Tensor, *_: Any, out_val: Tensor) -> int:
    return 2 * out_val.numel() * rows.shape[-1]


def activation_bytes(run: Run, row: Tensor) -> int:
    """Return how many bytes one more row in the batch costs; `row` has a batch of one."""
    totals = []
    for count in (1, 2):
        counter = _CountBytes()  # type: ignore[no-untyped-call]
        with torch.no_grad(), counter:
            run(row.expand(count, *row.shape[1:]).contiguous())
        totals.append(counter.total)
    return int(max(totals[1] - totals[0], row.element_size()))


def module_macs(run: Run, row: Tensor) -> float:
    """Return the multiply-adds of one row; `row` has a batch of one."""
    counter = _CountFlops()  # type: ignore[no-untyped-call]
    with torch.no_grad(), counter:
        run(row)
    return counter.total / 2
