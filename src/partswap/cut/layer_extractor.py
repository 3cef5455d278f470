"""A network up to one of its layers, or several, as a module from images to grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import Tensor, nn

from partswap.cut.layers import default_layer
from partswap.cut.layout import Layout, find_layout
from partswap.cut.network import Features
from partswap.cut.replay import ReplayFeatures, StopForward, output_hook
from partswap.cut.shadow_copy import (
    EvalModule,
    ForwardRecord,
    check_layer,
    first_tensor,
    layer_name,
    make_probe,
    no_side_effects,
    record_pass,
    shadow_copy,
    without_hooks,
)
from partswap.errors import LayerError
from partswap.grid import GridShape

#: Joins the names of several layers.
PLUS = "+"


class LayerExtractor(EvalModule):
    """Images ``(n, 3, H, W)`` to the grid ``(n, d, h, w)`` a layer gives; nothing after the layer runs.

    The model may be any network; it is copied (see `shadow_copy`) and left as it is. By default the layer (a name, or
    the module) is the last that still gives a grid, before the final pooling. Of tokens, the class token and registers
    are dropped. `size` is the images' side, or height and width.
    """

    def __init__(
        self, model: nn.Module, layer: str | nn.Module | None = None, *, size: int | tuple[int, int] = 224
    ) -> None:
        super().__init__()
        if layer is not None:
            layer = layer_name(model, layer)
        shadow, record = _record_of(model, size)
        if layer is None:
            layer = _last_grid(shadow, record)
        check_layer(shadow, layer, record.shapes)
        self.layer = layer
        self.layout = _layout(shadow, record, layer)
        self.features = Features(ReplayFeatures(shadow, layer, record.calls[layer]), self.layout, record.probe.dtype)
        self.train()

    def forward(self, images: Tensor) -> Tensor:
        """Return the grids of images."""
        grids: Tensor = self.features(images).values
        return grids


class LayerExtractors(EvalModule):
    """Images ``(n, 3, H, W)`` to the grids ``(n, d, h, w)`` of several layers, in one pass."""

    def __init__(self, model: nn.Module, layers: Sequence[str], *, size: int | tuple[int, int] = 224) -> None:
        super().__init__()
        if len(set(layers)) < len(layers) or not all(layers):
            raise LayerError(f"the layers are {PLUS.join(layers)!r}.", "Name each once, as in layer3+layer4.0.")
        self.shadow, record = _record_of(model, size)
        for layer in layers:
            check_layer(self.shadow, layer, record.shapes)
        #: In the order in which they end, whatever the order they were named in.
        self.layers = [layer for layer in record.shapes if layer in layers]
        self.calls = [record.calls[layer] for layer in self.layers]
        self.layouts = [_layout(self.shadow, record, layer) for layer in self.layers]
        self.widths = [layout.channels for layout in self.layouts]
        #: The coarsest of their grids.
        self.grid: GridShape = min((layout.grid for layout in self.layouts), key=lambda grid: grid.cells)
        self.dtype = record.probe.dtype
        self.train()

    def extra_repr(self) -> str:
        """Say which layers: caches tell two choices apart by this."""
        return f"layers={PLUS.join(self.layers)!r}"

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the grids of the layers."""
        outputs: dict[str, Any] = {}

        def record_output(layer: str) -> Callable[[Any], None]:
            def replace_output(output: Any) -> None:
                outputs[layer] = output
                if len(outputs) == len(self.layers):  # nothing after the last of them need run
                    raise StopForward(output)

            return replace_output

        with suppress(StopForward), ExitStack() as stack:
            for layer, calls in zip(self.layers, self.calls, strict=True):
                stack.enter_context(output_hook(self.shadow, layer, calls, record_output(layer)))
            self.shadow(images.to(self.dtype))
        grids = []
        for layer, layout in zip(self.layers, self.layouts, strict=True):
            raw = first_tensor(outputs.get(layer))
            if raw is None:
                raise LayerError(f"layer {layer!r} did not run for these images.", "Choose another layer.")
            grids.append(layout.to_grid(raw).values.float())
        return grids


def default_auxiliary_layers(model: nn.Module, size: int | tuple[int, int] = 224, cut: str | None = None) -> list[str]:
    """Return up to three layers that know different things: `cut`, the last, and the end of the stage before.

    `cut` is the layer a network is cut at by default. In a network that keeps one grid throughout there is no stage
    before: the block two before it is taken. It costs one pass, if `cut` is given.
    """
    shadow, record = _record_of(model, size)
    cut = cut or default_layer(model, probe=record.probe)
    grids: dict[str, GridShape] = {}
    for name in record.shapes:
        with suppress(LayerError):
            grids[name] = _layout(shadow, record, name).grid
    if cut not in grids:
        raise LayerError(f"layer {cut!r} gives no grid.", "Choose one that partswap layers lists.")
    names = list(grids)
    place, cells = names.index(cut), grids[cut].cells
    finer = [n for n in names[:place] if grids[n].cells > cells and not n.startswith(f"{cut}.")]
    # Several modules give one tensor: a stage what its last block gives.
    others = [n for n in names[place + 1 :] if grids[n].cells <= cells and not _same_output(record, n, cut)]
    stage, _, number = cut.rpartition(".")
    back = f"{stage}.{int(number) - 2}" if number.isdecimal() else ""
    before = finer[-1:] or ([back] if grids.get(back) == grids[cut] else [])
    return [*before, cut, *others[-1:]]


def _same_output(record: ForwardRecord, one: str, other: str) -> bool:
    """Return whether two modules give the same tensor."""
    a, b = (record.samples[name] for name in (one, other))
    return record.shapes[one] == record.shapes[other] and bool(torch.equal(a, b))


def _record_of(model: nn.Module, size: int | tuple[int, int]) -> tuple[nn.Module, ForwardRecord]:
    """Return a shadow copy of a network and the record of a pass through it."""
    shadow = shadow_copy(model)
    h, w = (size, size) if isinstance(size, int) else size
    probe = make_probe(shadow, None, (h, w))
    with no_side_effects(probe.device):
        shadow = without_hooks(shadow, probe)
        return shadow, record_pass(shadow, probe)


def _layout(shadow: nn.Module, record: ForwardRecord, layer: str) -> Layout:
    return find_layout(record.shapes[layer], layer, record.image, model=shadow, hints=record.hints(layer))


def _last_grid(shadow: nn.Module, record: ForwardRecord) -> str:
    for name in reversed(record.shapes):
        try:
            _layout(shadow, record, name)
        except LayerError:
            continue
        return name
    raise LayerError(f"no layer of {type(shadow).__name__} gives a grid.", "Use a model with feature maps or tokens.")
