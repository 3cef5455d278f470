"""Read a head: which operations act on the grid, how the grid becomes a vector, and what follows.

The head is traced with torch.fx. Up to the point where the grid collapses into a vector, every operation must be one
whose reaction to a single changed cell is known (`Conv`, `Pointwise`, `Add`); what comes after, the *tail*, may be
anything. A head that does not fit this pattern is simply evaluated densely.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from partswap.cut.trace import tracing
from partswap.grid import GridShape

_POINTWISE_MODULES = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.Sigmoid,
    nn.Tanh, nn.Softplus,
)  # fmt: skip
_POINTWISE_FUNCTIONS = (
    F.relu, torch.relu, F.relu6, F.gelu, F.silu, F.hardswish, F.leaky_relu, F.elu, torch.sigmoid, torch.tanh,
)  # fmt: skip
_POINTWISE_METHODS = ("relu", "relu_", "sigmoid", "tanh")
_NOTHING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
_ADDITIONS = (operator.add, operator.iadd, torch.add)


@dataclass(frozen=True)
class Conv:
    """A 1x1 or 3x3 convolution of stride 1 that keeps the grid's size; batch norms are folded into it."""

    source: int  #: which value it reads; 0 is the grid itself, k the output of the k-th operation
    weight: Tensor  #: ``(kernel, kernel, d_in, d_out)``: one matrix per offset
    bias: Tensor  #: ``(d_out,)``

    @property
    def reach(self) -> int:
        """How many cells away a changed cell is felt."""
        return int(self.weight.shape[0]) // 2


@dataclass(frozen=True)
class Pointwise:
    """Acts on every number alone (or on every channel alone: a batch norm that could not be folded)."""

    source: int
    apply: Callable[[Tensor], Tensor]
    apply_in_place: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Add:
    """The sum of two values: the end of a residual block."""

    source: int
    other: int


Operation = Conv | Pointwise | Add


@dataclass(frozen=True)
class Structure:
    """A head that was understood."""

    operations: tuple[Operation, ...]  #: on the grid, in order
    collapse: Literal["mean", "flatten"]  #: the last value becomes its mean over cells, or all numbers, channel first
    tail: nn.Module  #: from that vector to logits


class _UnsupportedHeadError(Exception):
    """Raised within this module for a head that does not fit; never leaves it."""


def analyse_head(head: nn.Module, grid: GridShape) -> Structure | None:
    """Return the structure of a head, or None if it is not of the kind understood here."""
    if any(isinstance(m, fx.GraphModule) for m in head.children()) and not isinstance(head, fx.GraphModule):
        return None
    try:
        with tracing():
            traced = fx.symbolic_trace(head)
    except Exception:  # tracing runs arbitrary code, which may raise anything; dense evaluation remains
        return None
    try:
        return _Reader(traced, grid).read()
    except (_UnsupportedHeadError, KeyError):  # a KeyError: the tail reads something that was left behind
        return None


class _Reader:
    def __init__(self, traced: fx.GraphModule, grid: GridShape) -> None:
        self.traced = traced
        self.grid = grid
        self.modules = dict(traced.named_modules())
        self.operations: list[Operation] = []
        self.value: dict[fx.Node, int] = {}  # grid-like nodes -> number of the value

    def read(self) -> Structure:
        nodes = list(self.traced.graph.nodes)
        inputs = [n for n in nodes if n.op == "placeholder"]
        if not inputs or len(inputs[0].users) == 0 or any(n.users for n in inputs[1:]):
            raise _UnsupportedHeadError
        self.value[inputs[0]] = 0
        for node in nodes:
            if node.op in ("placeholder", "get_attr") or not self._reads_grid(node):
                continue
            collapse = self._collapse(node)
            if collapse is not None:
                return self._finish(node, collapse)
            self._operation(node)
        raise _UnsupportedHeadError

    def _reads_grid(self, node: fx.Node) -> bool:
        return any(n in self.value for n in node.all_input_nodes)

    def _module(self, node: fx.Node) -> nn.Module | None:
        return self.modules.get(str(node.target)) if node.op == "call_module" else None

    def _only_source(self, node: fx.Node) -> int:
        if len(node.all_input_nodes) != 1:
            raise _UnsupportedHeadError
        return self.value[node.all_input_nodes[0]]

    def _operation(self, node: fx.Node) -> None:
        module = self._module(node)
        if isinstance(module, _NOTHING) or self._keeps_everything(node, module):
            self.value[node] = self._only_source(node)
        elif isinstance(module, nn.Conv2d):
            self._append(node, _as_conv(module, self._only_source(node)))
        elif isinstance(module, nn.BatchNorm2d):
            self._batch_norm(node, module)
        elif isinstance(module, _POINTWISE_MODULES):
            in_place = torch.relu_ if isinstance(module, nn.ReLU) else None
            self._append(node, Pointwise(self._only_source(node), _not_in_place(module), in_place))
        elif node.op == "call_function" and node.target in _POINTWISE_FUNCTIONS:
            function, options = node.target, {k: v for k, v in node.kwargs.items() if k not in ("inplace", "input")}
            if len(node.args) > 1:
                raise _UnsupportedHeadError
            self._append(node, Pointwise(self._only_source(node), lambda x: function(x, **options)))
        elif node.op == "call_method" and node.target in _POINTWISE_METHODS:
            function = getattr(torch, str(node.target).rstrip("_"))
            self._append(node, Pointwise(self._only_source(node), function))
        elif node.op == "call_function" and node.target in _ADDITIONS:
            if len(node.args) != 2 or node.kwargs or not all(isinstance(a, fx.Node) for a in node.args):
                raise _UnsupportedHeadError
            first, second = node.args
            if first not in self.value or second not in self.value:
                raise _UnsupportedHeadError
            self._append(node, Add(self.value[first], self.value[second]))  # type: ignore[index]
        else:
            raise _UnsupportedHeadError

    def _append(self, node: fx.Node, operation: Operation) -> None:
        self.operations.append(operation)
        self.value[node] = len(self.operations)

    def _keeps_everything(self, node: fx.Node, module: nn.Module | None) -> bool:
        """Tell adaptive pooling to the size the grid already has (torchvision's VGG), which does nothing."""
        if isinstance(module, nn.AdaptiveAvgPool2d):
            return _pair(module.output_size) == tuple(self.grid) and self.grid.cells > 1
        return node.op == "call_function" and node.target is F.dropout

    def _batch_norm(self, node: fx.Node, module: nn.BatchNorm2d) -> None:
        if module.running_mean is None or module.running_var is None:
            raise _UnsupportedHeadError
        scale = torch.rsqrt(module.running_var.float() + module.eps)
        if module.weight is not None:
            scale = scale * module.weight.detach().float()
        shift = -module.running_mean.float() * scale
        if module.bias is not None:
            shift = shift + module.bias.detach().float()
        source = self._only_source(node)
        before = self.operations[source - 1] if source > 0 else None
        if isinstance(before, Conv) and len(node.all_input_nodes[0].users) == 1 and source == len(self.operations):
            self.operations[-1] = Conv(before.source, before.weight * scale, before.bias * scale + shift)
            self.value[node] = source
        else:
            self._append(node, Pointwise(source, lambda x: x * scale + shift))

    def _collapse(self, node: fx.Node) -> Literal["mean", "flatten", "mean_keep"] | None:
        module = self._module(node)
        if isinstance(module, nn.AdaptiveAvgPool2d) and module.output_size in (1, (1, 1)):
            return "mean_keep"
        if isinstance(module, nn.AvgPool2d) and _pair(module.kernel_size) == tuple(self.grid) and not module.padding:
            return "mean_keep"
        if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1):
            return "flatten"
        if node.op == "call_function" and node.target is F.adaptive_avg_pool2d and node.args[1:] in ((1,), ((1, 1),)):
            return "mean_keep"
        if node.op in ("call_function", "call_method"):
            name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
            rest = dict(zip(("a", "b"), node.args[1:], strict=False)) | dict(node.kwargs)
            if name == "flatten" and list(rest.values()) == [1]:
                return "flatten"
            if name == "mean" and _is_spatial(node.args[1:2][0] if len(node.args) > 1 else node.kwargs.get("dim")):
                keep = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
                return "mean_keep" if keep else "mean"
        return None

    def _finish(self, exit_node: fx.Node, collapse: str) -> Structure:
        if self._only_source(exit_node) != len(self.operations) or (collapse == "flatten" and self.operations):
            raise _UnsupportedHeadError
        graph = fx.Graph()
        vector = graph.placeholder("vector")
        # A copy, because what follows may work in place, and the vector is needed again.
        start = graph.call_function(_unpool if collapse == "mean_keep" else torch.clone, (vector,))
        copies = {exit_node: start}
        for node in self.traced.graph.nodes:  # in order; what reads the grid stays behind
            if node.op != "placeholder" and node not in copies and node not in self.value:
                copies[node] = graph.node_copy(node, copies.__getitem__)
        tail = fx.GraphModule(self.traced, graph).eval()
        how: Literal["mean", "flatten"] = "flatten" if collapse == "flatten" else "mean"
        return Structure(tuple(self.operations), how, tail)


def _unpool(vector: Tensor) -> Tensor:
    """Return a copy of pooled features as the head had them, ``(m, d, 1, 1)``."""
    return vector[:, :, None, None].clone()


fx.wrap("_unpool")


def _as_conv(module: nn.Conv2d, source: int) -> Conv:
    kernel = module.kernel_size
    plain = kernel in ((1, 1), (3, 3)) and module.stride == (1, 1) and module.groups == 1
    plain &= module.dilation == (1, 1) and module.padding_mode == "zeros"
    plain &= module.padding in ("same", kernel[0] // 2, (kernel[0] // 2, kernel[1] // 2))
    if not plain:
        raise _UnsupportedHeadError
    # A change at offset o from a cell is felt through the kernel's mirrored position: flip once, here.
    weight = module.weight.detach().float().permute(2, 3, 1, 0).flip(0, 1).contiguous()
    bias = module.bias.detach().float() if module.bias is not None else weight.new_zeros(weight.shape[3])
    return Conv(source, weight, bias)


def _not_in_place(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return what a module does without changing its input, which others may still read."""
    if isinstance(module, nn.ReLU):
        return torch.relu
    if getattr(module, "inplace", False):
        return lambda x: module(x.clone())
    return module


def _pair(size: Any) -> tuple[int, int]:
    return tuple(size) if isinstance(size, tuple | list) else (size, size)


def _is_spatial(dim: Any) -> bool:
    return isinstance(dim, tuple | list) and sorted(d % 4 for d in dim) == [2, 3]
