"""Cut any network at any layer into features ``f`` and head ``g`` with ``g(f(images)) == model(images)``.

Three routes, tried in this order: torch.fx (the head stays a readable graph of the model's own modules),
torch.export (a graph of elementary operations), and replay (the head runs the whole network with the grid put
in at the layer; slow, but right). Whichever is taken is checked on a probe; `Cut.route` says which it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from partswap.cut.graph import CrossingError, clean_nodes, cut_graph
from partswap.cut.layout import Layout
from partswap.cut.mirror import EvalModule, check_layer, same
from partswap.cut.replay import ReplayFeatures, ReplayHead
from partswap.cut.study import Study
from partswap.cut.trace import Trace
from partswap.errors import CutError, LayerError, ShapeError
from partswap.grid import Grids, GridShape

Route = Literal["fx", "export", "replay"]


class Features(EvalModule):
    """Images ``(n, 3, H, W)`` to `Grids`: grids ``(n, d, h, w)``, and what the network keeps besides the cells."""

    def __init__(self, body: nn.Module, layout: Layout) -> None:
        super().__init__()
        self.body = body
        self.layout = layout
        self.train()

    def forward(self, images: Tensor) -> Grids:
        """Return the grids of images."""
        grids = self.layout.to_grid(self.body(images))
        shape = GridShape(*grids.values.shape[-2:])
        if shape != self.layout.grid:
            raise ShapeError(
                f"images of shape {tuple(images.shape)} give a grid of {shape} cells, not {self.layout.grid}.",
                "Resize them, or cut the model again with `probe` a batch of images of this size.",
            )
        return grids


class Head(EvalModule):
    """Grids ``(m, d, h, w)`` to logits ``(m, classes)``.

    `body` takes a grid in the network's own layout; it is a ``torch.fx.GraphModule`` unless replayed.
    """

    def __init__(self, body: nn.Module, layout: Layout) -> None:
        super().__init__()
        self.body = body
        self.layout = layout
        #: Whether it needs the tokens that stay with the query (class token, registers) besides the grid.
        self.needs_context = layout.prefix > 0
        self.train()

    def forward(self, grids: Grids | Tensor) -> Tensor:
        """Return the logits of grids; a plain tensor will do where no context is needed."""
        grids = grids if isinstance(grids, Grids) else Grids(grids)
        expected = (self.layout.channels, *self.layout.grid)
        if grids.values.ndim != 4 or tuple(grids.values.shape[1:]) != expected:
            raise ShapeError(
                f"the head got a grid of shape {tuple(grids.values.shape)}.",
                f"Pass (grids, {', '.join(map(str, expected))}).",
            )
        logits: Tensor
        if not self.needs_context:
            logits = self.body(grids.values)
            return logits
        context, count = self.check_context(grids.context), len(grids.values)
        if len(context) not in (1, count):
            raise ShapeError(
                f"there are {count} grids and the context of {len(context)} images.",
                "Pass the context of one image, or of as many as there are grids.",
            )
        logits = self.body(grids.values, context.expand(count, -1, -1))
        return logits

    def check_context(self, context: Tensor | None) -> Tensor:
        """Return a context that this head can use; none at all, or one of another shape, is an error."""
        if context is None:
            raise CutError(
                "this head needs the query's class token and registers, and the grid came without them.",
                "Pass what features(images) returned, or Grids(values, context).",
            )
        shape = (self.layout.prefix, self.layout.channels)
        if not isinstance(context, Tensor) or context.ndim != 3 or tuple(context.shape[1:]) != shape:
            got = tuple(context.shape) if isinstance(context, Tensor) else type(context).__name__
            raise ShapeError(f"the context is {got}.", f"Pass a tensor of shape (1 or grids, {shape[0]}, {shape[1]}).")
        return context


@dataclass(frozen=True, eq=False)
class Cut:
    """A network cut in two; unpacks as ``features, head = cut_network(model, layer)``.

    Parameters
    ----------
    features : Features
        Images ``(n, 3, H, W)`` to `Grids`.
    head : Head
        `Grids`, or plain grids ``(m, d, h, w)``, to logits ``(m, classes)``.
    layer : str
        Where the cut is.
    grid, channels, classes : GridShape, int, int
        Cells of a grid, channels of a cell, and logits of the head.
    route : {"fx", "export", "replay"}
        How the cut was made; with "replay" every call of the head runs the whole network.
    """

    features: Features
    head: Head
    layer: str
    grid: GridShape
    channels: int
    classes: int
    route: Route

    def __iter__(self) -> Iterator[nn.Module]:
        return iter((self.features, self.head))

    def __repr__(self) -> str:
        context = f", {self.head.layout.prefix} prefix tokens as context" if self.head.needs_context else ""
        slow = " (slow: the head runs the whole network)" if self.route == "replay" else ""
        size = f"grid={self.grid}, channels={self.channels}, classes={self.classes}"
        return f"Cut(layer={self.layer!r}, {size}, route={self.route!r}{slow}{context})"


def cut_network(model: nn.Module, layer: str | None = None, *, probe: Tensor | None = None, atol: float = 1e-4) -> Cut:
    """Cut `model` after `layer` into features and head.

    The parts share the model's parameters and always run in eval mode; the model itself is left as it was.
    Move the model to its device before, not after.

    Parameters
    ----------
    model : nn.Module
        An image classifier that returns logits ``(n, classes)``.
    layer : str, optional
        A name of ``model.named_modules()``; by default `partswap.cut.layers.default_layer`. When a module runs
        several times, the cut is after the last.
    probe : Tensor, optional
        Images ``(n, 3, H, W)`` to check the cut on; by default random ones of the size the model takes.
    atol : float
        How far ``head(features(probe))`` may be from ``model(probe)``, relative to logits larger than 1.

    Raises
    ------
    LayerError
        The layer is unknown, its output is no grid, or pixels reach the logits around it.
    CutError
        The model's output is not logits, or no cut reproduces the model.

    Examples
    --------
    >>> import torch
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 32, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    >>> features, head = cut_network(model, "0")
    >>> features(torch.randn(4, 3, 224, 224)).values.shape
    torch.Size([4, 8, 7, 7])
    """
    from partswap.cut.layers import choose_default  # it needs the same study; layers sits beside this file

    study = Study(model, probe)
    if layer is None:
        layer = choose_default(study)
    layer = layer.removeprefix("_orig_mod.")  # the names of a compiled model are those of the model inside it
    check_layer(study.twin, layer, study.survey.shapes)
    layout = study.layout(layer)
    if not study.matters(layer):
        raise LayerError(
            f"after layer {layer!r} the model reads only its class token: swapping cells changes nothing.",
            "Choose an earlier layer; list_layers(model) shows them.",
        )
    failures: list[str] = []
    for route, features, head in _cuts(study, layer, layout, failures):
        problem = _problem(study, layer, features, head, atol)
        if problem is None:
            classes = study.survey.logits.shape[1]
            return Cut(features, head, layer, layout.grid, layout.channels, classes, route)
        failures.append(f"{route}: {problem}")
    raise CutError(
        f"no cut at {layer!r} reproduces the model ({'; '.join(failures)}).",
        "If pixels reach the logits around this layer, choose another; list_layers(model) shows them.",
    )


def _cuts(study: Study, layer: str, layout: Layout, failures: list[str]) -> Iterator[tuple[Route, Features, Head]]:
    """Yield the cut by every route that can make one, best first; note in `failures` why others cannot."""
    for trace in study.traces(failures):
        node = trace.outputs.get(layer)
        if node is None:
            failures.append(f"{trace.route}: {layer} is not in the graph")
            continue
        if node not in clean_nodes(trace):
            raise _crossing(study, trace, layer)
        try:
            parts = _cut(study, trace, layer, layout)
        except CrossingError as error:
            raise _crossing(study, trace, layer) from error
        except Exception as error:  # an unusual graph; the next route may do
            failures.append(f"{trace.route}: {type(error).__name__}: {error}")
            continue
        yield trace.route, *parts
    calls = study.survey.calls[layer]
    replayed = ReplayHead(study.twin, layer, calls, layout, study.survey.probe)
    yield "replay", Features(ReplayFeatures(study.twin, layer, calls), layout), Head(replayed, layout)


def _cut(study: Study, trace: Trace, layer: str, layout: Layout) -> tuple[Features, Head]:
    probe = study.survey.probe
    features, body = cut_graph(trace, trace.outputs[layer], layout, probe)
    f, g = Features(features, layout), Head(body, layout)
    with study.quiet():
        grids = f(probe)
        version = grids.values._version
        g(grids)
        if grids.values._version != version:  # the head's first step works in place, so it gets a copy
            g = Head(cut_graph(trace, trace.outputs[layer], layout, probe, clone=True)[1], layout)
    return f, g


def _problem(study: Study, layer: str, features: Features, head: Head, atol: float) -> str | None:
    """Return why the parts do not equal the model on the probe, None if they do."""
    probe, logits = study.survey.probe, study.survey.logits
    try:
        with study.quiet():
            grids = features(probe)
            if not same(features.layout.to_grid(study.output(layer)).values, grids.values, atol):
                return "the features are not what the layer gives"
            if not same(head(grids), logits, atol):
                return f"logits differ by {float((head(grids) - logits).abs().max()):.2g}"
            three = [1, 0, 1]  # another number of grids than of images
            if not same(head(grids.at(three)), logits[three], atol):
                return "the head depends on the number of grids it is given"
    except Exception as error:  # a part that was cut wrong may fail in any way
        return f"{type(error).__name__}: {error}"
    return None


def _crossing(study: Study, trace: Trace, layer: str) -> LayerError:
    nearest = study.nearest_clean(trace, layer)
    return LayerError(
        f"layer {layer!r} cannot be cut: other tensors that depend on the image bypass it "
        "(it is inside a residual or dense block).",
        f"The nearest clean cut is {nearest!r}." if nearest else "list_layers(model) shows where it can be cut.",
    )
