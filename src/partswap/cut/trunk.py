"""A network up to one of its layers, as a module from images to a grid."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from partswap.cut.layout import Layout, find_layout
from partswap.cut.mirror import EvalModule, Survey, check_layer, make_probe, mirror, observe, quiet, without_hooks
from partswap.cut.network import Features
from partswap.cut.replay import ReplayFeatures
from partswap.errors import LayerError


class Trunk(EvalModule):
    """Images ``(n, 3, size, size)`` to the grid ``(n, d, h, w)`` a layer gives; nothing after the layer runs.

    The model may be any network; it is mirrored and left as it is. By default the layer is the last that still gives a
    grid, before the final pooling. Of tokens, the class token and registers are dropped.
    """

    def __init__(self, model: nn.Module, layer: str | None = None, *, size: int = 224) -> None:
        super().__init__()
        twin = mirror(model)
        probe = make_probe(twin, torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0)))
        with quiet(probe.device):
            twin = without_hooks(twin, probe)
            seen = observe(twin, probe)
        if layer is None:
            layer = _last_grid(twin, seen)
        check_layer(twin, layer, seen.shapes)
        self.layer = layer
        self.layout = _layout(twin, seen, layer)
        self.features = Features(ReplayFeatures(twin, layer, seen.calls[layer]), self.layout)
        self.train()

    def forward(self, images: Tensor) -> Tensor:
        """Return the grids of images."""
        grids: Tensor = self.features(images).values
        return grids


def _layout(twin: nn.Module, seen: Survey, layer: str) -> Layout:
    return find_layout(seen.shapes[layer], layer, seen.image, model=twin, hints=seen.hints(layer))


def _last_grid(twin: nn.Module, seen: Survey) -> str:
    for name in reversed(seen.shapes):
        try:
            _layout(twin, seen, name)
        except LayerError:
            continue
        return name
    raise LayerError(f"no layer of {type(twin).__name__} gives a grid.", "Use a model with feature maps or tokens.")
