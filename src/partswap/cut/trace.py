"""Graphs of a network: by torch.fx where it can be traced, by torch.export where it cannot.

Both give a `Trace`: a graph, the module its nodes refer to, and the node that is the output of each layer.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.fx import _symbolic_trace
from torch.utils import _pytree as pytree

from partswap._vision import tracing_leaves

PREFIX = "model."
# A tracer that has to leave so much of the network whole shows too little of it to be of use.
LARGEST_OPAQUE = 0.25
MAX_OPAQUE = 24
#: Two tracers at a time would put each other's patches back.
_TRACING = threading.RLock()


class _Here:
    """True in the thread that made it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def __bool__(self) -> bool:
        return threading.get_ident() == self.thread


class _Patcher(_symbolic_trace._Patcher):
    """What torch.fx patches while it traces, for one thread: in every other one, modules are called as before."""

    def __init__(self) -> None:
        super().__init__()
        # Compiled models refuse to run while this is true; torch.fx puts it back.
        _symbolic_trace._is_fx_tracing_flag = self.here = _Here()  # type: ignore[assignment]

    def patch_method(self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
        here, usual = self.here, getattr(cls, name)

        @functools.wraps(new_fn)
        def method(*args: Any, **kwargs: Any) -> Any:
            return (new_fn if here else usual)(*args, **kwargs)

        super().patch_method(cls, name, method, deduplicate)


@contextmanager
def tracing() -> Iterator[None]:
    """Trace with torch.fx, or what builds on it, one thread at a time and unnoticed by models that others run.

    By itself torch.fx replaces ``Module.__call__`` and ``Module.__getattr__`` for the whole process.
    """
    with _TRACING:
        usual, _symbolic_trace._Patcher = _symbolic_trace._Patcher, _Patcher  # type: ignore[misc]
        try:
            yield
        finally:
            _symbolic_trace._Patcher = usual  # type: ignore[misc]


@dataclass(frozen=True)
class Trace:
    """A network as a graph."""

    route: Literal["fx", "export"]  #: how the graph was made
    root: nn.Module  #: holds the modules and tensors that the nodes name
    graph: fx.Graph  #: from one placeholder (the images) to the logits
    outputs: dict[str, fx.Node]  #: the last output of every layer; its first tensor if there are several

    @property
    def images(self) -> fx.Node:
        """The placeholder for the images."""
        images: fx.Node = next(node for node in self.graph.nodes if node.op == "placeholder")
        return images

    @property
    def logits(self) -> fx.Node:
        """The node whose value the model returns."""
        returned = pytree.tree_leaves(self.graph.output_node().args)
        return next(value for value in returned if isinstance(value, fx.Node))


class _Root(nn.Module):
    """Calls the model with images only, so that its optional arguments keep their defaults."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Any:
        return self.model(images)


class _Tracer(fx.Tracer):
    """Keeps the output of every layer, and remembers the innermost module in which tracing failed."""

    def __init__(self, opaque: set[str]) -> None:
        self.whole, functions = tracing_leaves()
        super().__init__(autowrap_modules=(math,), autowrap_functions=functions)
        self.opaque = opaque
        self.layer_outputs: dict[str, Any] = {}
        self.failed_in: str | None = None

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if module_qualified_name == PREFIX.rstrip("."):  # even if it is torch's own, such as DataParallel
            return False
        if module_qualified_name in self.opaque or isinstance(m, self.whole):
            return True
        return super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = self.path_of_module(m)
        try:
            output = super().call_module(m, forward, args, kwargs)
        except Exception:
            if self.failed_in is None:
                self.failed_in = name
            raise
        self.layer_outputs[name.removeprefix(PREFIX)] = output
        return output


def trace_fx(shadow: nn.Module) -> Trace:
    """Trace a shadow copy with torch.fx; modules with control flow inside are left whole."""
    opaque: set[str] = set()
    sizes = {PREFIX + name: sum(1 for _ in m.modules()) for name, m in shadow.named_modules() if name}
    total = sum(1 for _ in shadow.modules())
    while True:
        root, tracer = _Root(shadow), _Tracer(opaque)
        try:
            with tracing():
                graph = tracer.trace(root)
            break
        except Exception:
            failed = tracer.failed_in
            if failed is None or failed not in sizes or failed in opaque or len(opaque) >= MAX_OPAQUE:
                raise
            if sizes[failed] > max(12, LARGEST_OPAQUE * total):
                raise
            opaque.add(failed)
    outputs = {}
    for name, output in tracer.layer_outputs.items():
        nodes = [leaf.node for leaf in pytree.tree_leaves(output) if isinstance(leaf, fx.Proxy)]
        if nodes:
            outputs[name] = nodes[0]
    return Trace("fx", root, graph, outputs)


def trace_export(shadow: nn.Module, probe: Tensor) -> Trace:
    """Trace a shadow copy with torch.export, for any number of images."""
    batch = torch.export.Dim("batch", min=1)
    hushed = _hushed("torch.export", "torch.fx", "torch._dynamo")
    with tracing(), warnings.catch_warnings(), hushed, redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")  # about shapes that it specialises; the probe checks what matters
        program = torch.export.export(_Root(shadow), (probe,), dynamic_shapes=({0: batch},), strict=False)
        root = program.module()
    outputs: dict[str, fx.Node] = {}
    for node in root.graph.nodes:
        if node.op == "output" or not isinstance(node.meta.get("val"), Tensor):
            continue
        users = [_inside(user) for user in node.users]
        for name in _inside(node):
            if any(name not in user for user in users):
                outputs[name] = node
    return Trace("export", root, root.graph, outputs)


def _inside(node: fx.Node) -> set[str]:
    stack = node.meta.get("nn_module_stack") or {}
    names = (entry[0].partition("@")[0] for entry in stack.values())  # "relu@1" is the second call of "relu"
    return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}


@contextmanager
def _hushed(*names: str) -> Iterator[None]:
    """Silence loggers and all below them; torch.export logs what a fallback expects as if the user had to act on it."""
    known = [name for name in logging.root.manager.loggerDict if name.startswith(tuple(f"{n}." for n in names))]
    before = {logger: logger.disabled for logger in map(logging.getLogger, [*names, *known])}
    for logger in before:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in before.items():
            logger.disabled = disabled
