"""Cut a network that no tracer understands: run all of it, and put the grid in the layer's place.

Slow, because the head pays for the whole network, but right for anything with a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from partswap.cut.layout import Layout
from partswap.cut.mirror import EvalModule, first_tensor


class _Stop(Exception):  # noqa: N818, a signal and no error
    """Ends a forward pass at the layer."""


@contextmanager
def _hooked(model: nn.Module, layer: str, calls: int, act: Callable[[Any], Any]) -> Iterator[None]:
    """Let `act` replace the output of a layer's last call."""
    count = 0

    def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
        nonlocal count
        count += 1
        return act(output) if count == calls else None

    handle = model.get_submodule(layer).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


class ReplayFeatures(EvalModule):
    """Images to the raw output of a layer; nothing after the layer runs."""

    def __init__(self, twin: nn.Module, layer: str, calls: int) -> None:
        super().__init__()
        self.twin, self.layer, self.calls = twin, layer, calls
        self.train()

    def forward(self, images: Tensor) -> Tensor:
        """Run up to the layer."""
        found: list[Tensor] = []

        def act(output: Any) -> Any:
            tensor = first_tensor(output)
            if tensor is not None:
                found.append(tensor)
            raise _Stop

        with suppress(_Stop), _hooked(self.twin, self.layer, self.calls, act):
            self.twin(images)
        return found[0]


class ReplayHead(EvalModule):
    """Grids to logits: the whole network on blank images, with the grids put in at the layer."""

    def __init__(self, twin: nn.Module, layer: str, calls: int, layout: Layout, probe: Tensor) -> None:
        super().__init__()
        self.twin, self.layer, self.calls, self.layout = twin, layer, calls, layout
        self.register_buffer("blank", torch.zeros_like(probe[:1]), persistent=False)
        self.train()

    def forward(self, grid: Tensor, context: Tensor | None = None) -> Any:
        """Run on blank images and replace."""
        raw = self.layout.to_raw(grid.clone(), context)  # a copy: the network may write into it

        def act(output: Any) -> Any:
            leaves, structure = pytree.tree_flatten(output)
            first = next(i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor))
            return pytree.tree_unflatten([*leaves[:first], raw, *leaves[first + 1 :]], structure)

        assert isinstance(self.blank, Tensor)
        with _hooked(self.twin, self.layer, self.calls, act):
            return self.twin(self.blank.expand(len(grid), -1, -1, -1))
