"""Cut any network at any layer into features ``f`` and head ``g`` with ``g(f(images)) == model(images)``.

Three routes, tried in this order: torch.fx (the head stays a readable graph of the model's own modules),
torch.export (a graph of elementary operations), and replay (the head runs the whole network with the grid put
in at the layer; slow, but right). Whichever is taken is checked on a probe; `Cut.route` says which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, fx, nn

from partswap.cut.graph import CrossingError, clean_nodes, graph_after, graph_before
from partswap.cut.inspection import ModelInspection
from partswap.cut.layout import Layout
from partswap.cut.replay import ReplayFeatures, ReplayHead
from partswap.cut.shadow_copy import EvalModule, check_layer, equal_outputs, layer_name, sample_values
from partswap.cut.trace import Trace
from partswap.errors import CutError, LayerError, NondeterministicModelError, ShapeError
from partswap.grid import FeatureGrids, GridShape
from partswap.utils.progress import Advance, Track, no_progress

Route = Literal["fx", "export", "replay"]
#: Inspection, graph, and a checked cut.
STEPS = 3
#: The probe's images on which heads are checked: another number of grids than the features gave.
ROWS = [1, 0, 1]


class Features(EvalModule):
    """Images ``(n, 3, H, W)`` to `FeatureGrids`: grids ``(n, d, h, w)``, and what the network keeps besides the cells.

    Grids are float32 whatever the network computes in; `dtype` is what `body` takes its images in.
    """

    def __init__(self, body: nn.Module, layout: Layout, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.body = body
        self.layout = layout
        self.dtype = dtype
        self.train()

    def forward(self, images: Tensor) -> FeatureGrids:
        """Return the grids of images."""
        grids = self.grids(self.body(images.to(self.dtype)))
        shape = GridShape(*grids.values.shape[-2:])
        if shape != self.layout.grid:
            raise ShapeError(
                f"images of shape {tuple(images.shape)} give a grid of {shape} cells, not {self.layout.grid}.",
                "Resize them, or cut the model again with `probe` a batch of images of this size.",
            )
        return grids

    def grids(self, raw: Tensor) -> FeatureGrids:
        """Return the grids of what `body` gives."""
        values, context = self.layout.to_grid(raw)
        return FeatureGrids(values.float(), None if context is None else context.float())


class Head(EvalModule):
    """Grids ``(m, d, h, w)`` to logits ``(m, classes)``, in float32.

    `body` takes a grid in the network's own layout and `dtype`; it is a ``torch.fx.GraphModule`` unless replayed.
    """

    def __init__(self, body: nn.Module, layout: Layout, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.body = body
        self.layout = layout
        self.dtype = dtype
        #: Whether it needs the tokens that stay with the query (class token, registers) besides the grid.
        self.needs_context = layout.prefix > 0
        self.train()

    def forward(self, grids: FeatureGrids | Tensor) -> Tensor:
        """Return the logits of grids; a plain tensor will do where no context is needed."""
        grids = grids if isinstance(grids, FeatureGrids) else FeatureGrids(grids)
        expected = (self.layout.channels, *self.layout.grid)
        if grids.values.ndim != 4 or tuple(grids.values.shape[1:]) != expected:
            raise ShapeError(
                f"the head got a grid of shape {tuple(grids.values.shape)}.",
                f"Pass (grids, {', '.join(map(str, expected))}).",
            )
        values = grids.values.to(self.dtype)
        logits: Tensor
        if not self.needs_context:
            logits = self.body(values)
            return logits.float()
        context, count = self.check_context(grids.context), len(grids.values)
        if len(context) not in (1, count):
            raise ShapeError(
                f"there are {count} grids and the context of {len(context)} images.",
                "Pass the context of one image, or of as many as there are grids.",
            )
        logits = self.body(values, context.to(self.dtype).expand(count, -1, -1))
        return logits.float()

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
        Images ``(n, 3, H, W)`` to `FeatureGrids`.
    head : Head
        `FeatureGrids`, or plain grids ``(m, d, h, w)``, to logits ``(m, classes)``.
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


def cut_network(
    model: nn.Module,
    layer: str | nn.Module | None = None,
    *,
    probe: Tensor | None = None,
    atol: float = 1e-4,
    track: Track = no_progress,
) -> Cut:
    """Cut `model` after `layer` into features and head.

    The parts share the model's parameters and always run in eval mode; the model itself is left as it was.
    Move the model to its device before, not after.

    Parameters
    ----------
    model : nn.Module
        An image classifier that returns logits ``(n, classes)``.
    layer : str or nn.Module, optional
        A name of ``model.named_modules()``, or the module itself; by default `partswap.cut.layers.default_layer`.
        When a module runs several times, the cut is after the last.
    probe : Tensor, optional
        Images ``(n, 3, H, W)`` to check the cut on; by default random ones of the size the model takes.
    atol : float
        How far ``head(features(probe))`` may be from ``model(probe)``, relative to logits larger than 1; a model in
        half precision may be as far off as its own rounding.
    track : Track
        Shows progress; see `partswap.utils.progress`.

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
    with track(f"inspecting {type(model).__name__}", STEPS) as advance:
        inspection = ModelInspection(model, probe)
        inspection.check_logits()
        advance(1)
        return cut_inspected(
            inspection, None if layer is None else layer_name(model, layer), atol=atol, advance=advance
        )


class EachAlone(EvalModule):
    """A module that gets its grids or images one by one, for what gives other numbers in other company."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.train()

    def forward(self, *given: Tensor) -> Tensor:
        """Return what the module gives for each row, together."""
        return torch.cat([self.body(*(tensor[k : k + 1] for tensor in given)) for k in range(len(given[0]))])


def one_by_one(cut: Cut) -> Cut:
    """Return a cut whose parts run every image and every grid alone."""
    features, head = cut.features, cut.head
    return replace(
        cut,
        features=Features(EachAlone(features.body), features.layout, features.dtype),
        head=Head(EachAlone(head.body), head.layout, head.dtype),
    )


def cut_inspected(
    inspection: ModelInspection, layer: str | None = None, *, atol: float = 1e-4, advance: Advance = lambda _steps: None
) -> Cut:
    """Cut an inspected model; `advance` is called for the `STEPS` that are left after the inspection."""
    next(inspection.traces(), None)
    advance(1)
    cut = _cut_by_default(inspection, atol) if layer is None else _cut_at(inspection, layer, atol)
    advance(1)
    return cut


def _cut_at(inspection: ModelInspection, layer: str, atol: float) -> Cut:
    check_layer(inspection.shadow, layer, inspection.record.shapes)
    cut, reads_cells = _checked_cut(inspection, layer, atol)
    if not reads_cells:
        raise LayerError(
            f"after layer {layer!r} the model reads only its class token: swapping cells changes nothing.",
            "Choose an earlier layer; {list_layers} shows them.",
        )
    return cut


def _cut_by_default(inspection: ModelInspection, atol: float) -> Cut:
    from partswap.cut.layers import default_layers, no_default  # a cycle otherwise

    for layer in default_layers(inspection):
        try:
            cut, reads_cells = _checked_cut(inspection, layer, atol)
        except CutError as error:
            if inspection.has_graph or isinstance(error, NondeterministicModelError):
                raise
            continue  # without a graph, only trying tells where it can be cut
        if reads_cells:
            return cut
    return _cut_by_default(inspection, atol) if inspection.fall_back_to_in_place() else no_default(inspection)


def _checked_cut(inspection: ModelInspection, layer: str, atol: float) -> tuple[Cut, bool]:
    """Return the first cut that reproduces the model, and whether the logits depend on the cells."""
    dtype = inspection.record.samples[layer].dtype if layer in inspection.record.samples else None
    if dtype is not None and not dtype.is_floating_point and not dtype.is_complex:
        raise CutError(
            f"the network is quantised: what it gives at {layer!r} are integers ({dtype}), whose cells cannot be "
            "swapped and scored exactly.",
            "Pass the network in floating point that it was made from; dynamic quantisation will do, too.",
        )
    layout, failures = inspection.layout(layer), list[str]()
    for route, features, head, make_head in _candidate_cuts(inspection, layer, layout, failures):
        try:
            with inspection.without_side_effects():
                head, reads_cells = _checked_head(inspection, layer, features, head, make_head, atol)
        except Exception as error:  # a part that was cut wrong may fail in any way
            inspection.check_repeatable()
            if inspection.fall_back_to_in_place():
                return _checked_cut(inspection, layer, atol)
            problem = str(error) if isinstance(error, _MismatchError) else f"{type(error).__name__}: {error}"
            failures.append(f"{route}: {problem}")
            continue
        classes = inspection.record.logits.shape[1]
        return Cut(features, head, layer, layout.grid, layout.channels, classes, route), reads_cells
    raise CutError(
        f"no cut at {layer!r} reproduces the model ({'; '.join(failures)}).",
        "If pixels reach the logits around this layer, choose another; {list_layers} shows them.",
    )


class _MismatchError(Exception):
    """The parts do not equal the model on the probe."""


def _candidate_cuts(
    inspection: ModelInspection, layer: str, layout: Layout, failures: list[str]
) -> Iterator[tuple[Route, Features, Head, Callable[..., Head] | None]]:
    """Yield the cut by every route that can make one, best first; note in `failures` why others cannot.

    The last of each makes another head, which may work on a copy of its grid.
    """
    probe, calls = inspection.record.probe, inspection.record.calls[layer]
    taken, given = probe.dtype, inspection.record.samples[layer].dtype
    for trace in inspection.traces(failures):
        node = trace.outputs.get(layer)
        if node is None:
            failures.append(f"{trace.route}: {layer} is not in the graph")
            continue
        if node not in clean_nodes(trace):
            raise _crossing(inspection, trace, layer)

        def make_head(trace: Trace = trace, node: fx.Node = node, *, clone: bool = False) -> Head:
            return Head(graph_after(trace, node, layout, probe, clone=clone), layout, given)

        try:
            features, head = Features(graph_before(trace, node), layout, taken), make_head()
        except CrossingError as error:
            raise _crossing(inspection, trace, layer) from error
        except Exception as error:  # an unusual graph; the next route may do
            failures.append(f"{trace.route}: {type(error).__name__}: {error}")
            continue
        yield trace.route, features, head, make_head
    features = Features(ReplayFeatures(inspection.shadow, layer, calls), layout, taken)
    yield "replay", features, Head(ReplayHead(inspection.shadow, layer, calls, layout, probe), layout, given), None


def _checked_head(
    inspection: ModelInspection,
    layer: str,
    features: Features,
    head: Head,
    make_head: Callable[..., Head] | None,
    atol: float,
) -> tuple[Head, bool]:
    """Return a head that with the features equals the model on the probe, and whether it reads the cells."""
    raw = features.body(inspection.record.probe.clone())  # a model may write into its input
    if not equal_outputs(sample_values(raw), inspection.record.samples[layer], atol):
        raise _MismatchError("the features are not what the layer gives")
    grids = features.grids(raw)
    three = grids.at(ROWS)
    version = three.values._version
    logits = _checked_logits(inspection, head, grids, three, atol)
    if three.values._version != version and make_head is not None:  # it writes into its grid, so it gets a copy
        head = make_head(clone=True)
        logits = _checked_logits(inspection, head, grids, grids.at(ROWS), atol)
    return head, _reads_cells(inspection, head, grids, logits)


def _checked_logits(
    inspection: ModelInspection, head: Head, grids: FeatureGrids, three: FeatureGrids, atol: float
) -> Tensor:
    """Return the logits of the probe's `ROWS`; an error says in what they are not the model's."""
    expected = inspection.record.logits
    logits: Tensor = head(three)
    if not equal_outputs(logits, expected[ROWS], atol):
        if not isinstance(head.body, ReplayHead) and equal_outputs(head(grids), expected, atol):
            raise _MismatchError("the head depends on the number of grids it is given")
        raise _MismatchError(f"logits differ by {float((logits - expected[ROWS]).abs().max()):.2g}")
    return logits


def _reads_cells(inspection: ModelInspection, head: Head, grids: FeatureGrids, logits: Tensor) -> bool:
    """Return whether the logits of `ROWS` become others with the cells of the other image beside the same context."""
    if grids.context is None or not inspection.probe_images_differ:
        return True
    others = [1 - row for row in ROWS]
    swapped = head(FeatureGrids(grids.values[others], grids.context[ROWS]))
    # Where nothing reads the cells the very same numbers come out, whatever their precision.
    return not equal_outputs(swapped, logits)


def _crossing(inspection: ModelInspection, trace: Trace, layer: str) -> LayerError:
    nearest = inspection.nearest_clean_layer(trace, layer)
    return LayerError(
        f"layer {layer!r} cannot be cut: other tensors that depend on the image bypass it "
        "(it is inside a residual or dense block).",
        f"The nearest clean cut is {nearest!r}." if nearest else "{list_layers} shows where it can be cut.",
    )
