"""Cut a graph in two at one node.

A cut is clean when every path from the pixels to the logits passes through the node. Values that depend on
the images only through their *shape* (a batch size, a window mask) may bypass it: they are rebuilt in the
head from the batch size of the grid it is given.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode

from partswap.cut.layout import Layout
from partswap.cut.shadow_copy import EvalModule, no_side_effects
from partswap.cut.trace import PREFIX, Trace
from partswap.errors import CutError

_SHAPE_ATTRIBUTES = {"shape", "ndim", "dtype", "device", "is_cuda", "requires_grad", "layout"}
_SHAPE_METHODS = {"size", "dim", "numel", "nelement", "stride", "ndimension", "get_device", "is_contiguous"}
_SHAPE_FUNCTIONS = {"sym_size.int", "sym_numel.default", "sym_stride.int", "numel"}


class CrossingError(Exception):
    """Pixels reach the logits around the node, through the one it names."""


class EvalGraphModule(EvalModule, fx.GraphModule):
    """A graph module that stays in eval mode."""


def asks_shape(node: fx.Node) -> bool:
    """Return whether a node reads only the shape (or dtype, device) of its input."""
    if node.op == "call_method":
        return node.target in _SHAPE_METHODS
    if node.op != "call_function":
        return False
    if node.target is builtins.getattr:
        return node.args[1] in _SHAPE_ATTRIBUTES
    return getattr(node.target, "__name__", "") in _SHAPE_FUNCTIONS


def with_pixels(trace: Trace) -> dict[fx.Node, bool]:
    """Tell for every node whether its value depends on the pixels, not only on the shape of the images."""
    depends: dict[fx.Node, bool] = {}
    for node in trace.graph.nodes:
        depends[node] = node is trace.images or (
            not asks_shape(node) and any(depends[source] for source in node.all_input_nodes)
        )
    return depends


def clean_nodes(trace: Trace) -> set[fx.Node]:
    """Return the nodes at which the graph can be cut cleanly."""
    depends = with_pixels(trace)
    needed = _ancestors(trace.logits)
    nodes = [node for node in trace.graph.nodes if node in needed and depends[node]]
    order = {node: i for i, node in enumerate(nodes)}
    last_use = {n: max((order[u] for u in n.users if u in order), default=len(nodes)) for n in nodes}
    # In execution order: after a clean node, nothing computed before it is used any more.
    clean, open_until = set(), -1
    for i, node in enumerate(nodes):
        if open_until <= i:
            clean.add(node)
        open_until = max(open_until, last_use[node])
    return clean


def graph_before(trace: Trace, node: fx.Node) -> fx.GraphModule:
    """Return the graph up to `node`, images to raw output."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    before = _ancestors(node)
    for each in trace.graph.nodes:
        if each in before:
            copies[each] = graph.node_copy(each, copies.__getitem__)
    graph.output(copies[node])
    return _module(trace, graph, "Features")


def graph_after(trace: Trace, node: fx.Node, layout: Layout, probe: Tensor, *, clone: bool = False) -> fx.GraphModule:
    """Return the graph after `node`, grid to logits.

    The probe measures the shapes that bypass the cut. With `clone` the head works on a copy of its grid, for heads that
    write into their input.
    """
    return _module(trace, _head(trace, node, layout, probe, clone), "Head")


def _head(trace: Trace, node: fx.Node, layout: Layout, probe: Tensor, clone: bool) -> fx.Graph:
    depends = with_pixels(trace)
    after = _reached(node.users, lambda each: each.users)
    known, needed = after | {node}, _ancestors(trace.logits)
    graph = fx.Graph()
    grid = graph.placeholder("grid")
    recorder = fx.proxy.GraphAppendingTracer(graph)
    context = fx.Proxy(graph.placeholder("context"), recorder) if layout.prefix else None
    start = fx.Proxy(grid, recorder)
    start = start.clone() if clone else start
    copies: dict[fx.Node, Any] = {node: layout.to_raw(start, context).node}
    shapes = _Shapes(trace, probe, graph, grid)

    def fetch(source: fx.Node) -> Any:
        if source not in copies:
            if source not in after and depends[source]:
                raise CrossingError(source)
            if asks_shape(source) and any(depends[s] and s not in known for s in source.all_input_nodes):
                copies[source] = shapes.rebuild(source)
            else:
                for each in source.all_input_nodes:  # first what it needs, so that nodes stay in order
                    fetch(each)
                copies[source] = graph.node_copy(source, fetch)
        return copies[source]

    for each in trace.graph.nodes:
        if each in after and each.op != "output" and (each in needed or _writes(each)):
            fetch(each)
    graph.output(fetch(trace.logits))
    return graph


class _Shapes:
    """Rebuilds shapes that bypass the cut from the batch size of the grid."""

    def __init__(self, trace: Trace, probe: Tensor, graph: fx.Graph, grid: fx.Node) -> None:
        self.trace, self.probe, self.graph, self.grid = trace, probe, graph, grid
        self.batch: fx.Node | None = None
        # With shapes alone, which costs no pass, unless a module looks at numbers.
        self.fake: FakeTensorMode | None = FakeTensorMode(allow_non_fake_inputs=True)
        self.runners: list[fx.Interpreter] = []

    def rebuild(self, node: fx.Node) -> Any:
        try:
            two, three = self._seen(node)
        except Exception:  # whatever a module raises that was given no numbers
            if self.fake is None:
                raise
            self.fake, self.runners = None, []
            two, three = self._seen(node)
        return self._value(two, three, node)

    def _seen(self, node: fx.Node) -> list[Any]:
        """Return what a node gives for two and for three images, computing no more than it needs."""
        with no_side_effects(self.probe.device), self.fake or nullcontext():
            if not self.runners:
                for images in (self.probe[:2], self.probe[[0, 1, 0]]):
                    runner = fx.Interpreter(self.trace.root, garbage_collect_values=False, graph=self.trace.graph)
                    runner.args_iter = iter([images if self.fake is None else self.fake.from_tensor(images)])
                    self.runners.append(runner)
            needed = _ancestors(node)
            for each in self.trace.graph.nodes:
                for runner in self.runners if each in needed else ():
                    if each not in runner.env:
                        runner.env[each] = runner.run_node(each)
        return [runner.env[node] for runner in self.runners]

    def _value(self, two: Any, three: Any, node: fx.Node) -> Any:
        if isinstance(two, (tuple, list)):
            return tuple(self._value(a, b, node) for a, b in zip(two, three, strict=True))
        if two == three:
            return two
        if not isinstance(two, int) or two * 3 != three * 2:
            raise CutError(f"{node} depends on the number of images in a way that cannot be rebuilt.")
        if self.batch is None:
            self.batch = self.graph.call_method("size", (self.grid, 0))
        return self.batch if two == 2 else self.graph.call_function(operator.mul, (self.batch, two // 2))


def _module(trace: Trace, graph: fx.Graph, name: str) -> fx.GraphModule:
    parts: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            part = operator.attrgetter(node.target)(trace.root)
            node.target = node.target.removeprefix(PREFIX)
            parts[node.target] = part
    module = EvalGraphModule(parts, graph, name)
    # GraphModule starts in training mode, and so do the empty containers that it makes for dotted names.
    return module.train()


def _writes(node: fx.Node) -> bool:
    """Return whether a node is a statement that writes into its input, such as ``x.clamp_(0)``."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    name = name.partition(".")[0]
    return node.op in ("call_method", "call_function") and name.endswith("_") and not name.endswith("__")


def _ancestors(node: fx.Node) -> set[fx.Node]:
    return _reached([node], lambda each: each.all_input_nodes)


def _reached(start: Iterable[fx.Node], step: Callable[[fx.Node], Iterable[fx.Node]]) -> set[fx.Node]:
    seen: set[fx.Node] = set()
    stack = list(start)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(step(node))
    return seen
