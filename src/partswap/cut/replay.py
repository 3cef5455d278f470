"""Cut a network that no tracer understands: run all of it, and put the grid in the layer's place.

Slow, because the head pays for the whole network, but right for anything with a forward pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from partswap.cut.layout import Layout
from partswap.cut.shadow_copy import EvalModule, first_tensor
from partswap.errors import LayerError


class StopForward(BaseException):  # a network's own `except Exception` must not swallow it
    """Ends a forward pass with a layer's output."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


@contextmanager
def output_hook(model: nn.Module, layer: str, calls: int, replace_output: Callable[[Any], Any]) -> Iterator[None]:
    """Replace the output of a layer's last call by what `replace_output` returns, in this thread only."""
    count, thread = 0, threading.get_ident()

    def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
        nonlocal count
        if threading.get_ident() != thread:
            return None
        count += 1
        return replace_output(output) if count == calls else None

    handle = model.get_submodule(layer).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


class ReplayFeatures(EvalModule):
    """Images to the raw output of a layer; nothing after the layer runs."""

    def __init__(self, shadow: nn.Module, layer: str, calls: int) -> None:
        super().__init__()
        self.shadow, self.layer, self.calls = shadow, layer, calls
        self.train()

    def extra_repr(self) -> str:
        """Say where it ends: caches tell two cuts of one network apart by this."""
        return f"layer={self.layer!r}"

    def forward(self, images: Tensor) -> Tensor:
        """Run up to the layer."""

        def stop(output: Any) -> Any:
            raise StopForward(output)

        try:
            with output_hook(self.shadow, self.layer, self.calls, stop):
                self.shadow(images)
        except StopForward as reached:
            tensor = first_tensor(reached.output)
            assert tensor is not None  # the probe gave a tensor here
            return tensor
        raise LayerError(f"layer {self.layer!r} did not run for these images.", "Choose another layer.")


class ReplayHead(EvalModule):
    """Grids to logits: the whole network on blank images, with the grids put in at the layer."""

    def __init__(self, shadow: nn.Module, layer: str, calls: int, layout: Layout, probe: Tensor) -> None:
        super().__init__()
        self.shadow, self.layer, self.calls, self.layout = shadow, layer, calls, layout
        self.register_buffer("blank", torch.zeros_like(probe[:1]), persistent=False)
        self.train()

    def forward(self, grid: Tensor, context: Tensor | None = None) -> Any:
        """Run on blank images and replace."""
        raw = self.layout.to_raw(grid.clone(), context)  # a copy: the network may write into it

        assert isinstance(self.blank, Tensor)
        with output_hook(self.shadow, self.layer, self.calls, lambda output: _with_first(output, raw)):
            return self.shadow(self.blank.expand(len(grid), -1, -1, -1))


def with_swapped_cells(shadow: nn.Module, layer: str, calls: int, layout: Layout, probe: Tensor) -> Tensor | None:
    """Return what two images give if they swap their cells at a layer and keep their contexts; None if it fails."""

    def replace_output(output: Any) -> Any:
        tensor = first_tensor(output)
        assert tensor is not None  # the probe gave a grid here
        values, context = layout.to_grid(tensor)
        return _with_first(output, layout.to_raw(values.flip(0), context))

    try:
        with output_hook(shadow, layer, calls, replace_output):
            logits = shadow(probe)
    except Exception:  # the network does not take what it gave, in whatever way
        return None
    return logits if isinstance(logits, Tensor) else None


def _with_first(output: Any, raw: Tensor) -> Any:
    """Return a module's output with its first tensor replaced."""
    leaves, structure = pytree.tree_flatten(output)
    first = next(i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor))
    return pytree.tree_unflatten([*leaves[:first], raw, *leaves[first + 1 :]], structure)
