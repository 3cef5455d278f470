"""Transformer heads: where only the class token is read at the end, compute only that token after the last attention.

This is a rewrite of the head's graph, exact for any input: the selection of the token is moved up through everything
that treats tokens one by one (normalisation, linear layers, activations, residual sums) to the attention, where one
row of queries is enough. Keys and values still come from all tokens.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch.nn.functional as F
from torch import fx, nn

_TOKENWISE = (nn.Linear, nn.LayerNorm, nn.GELU, nn.ReLU, nn.SiLU, nn.Dropout, nn.Identity)
#: timm's own modules that treat tokens one by one, by name, because timm may not be installed.
_TOKENWISE_NAMES = {"LayerScale", "DropPath", "GELU", "GELUTanh", "QuickGELU", "LayerNorm", "RmsNorm", "SwiGLU"}


def keep_class_token_only(head: nn.Module) -> nn.Module:
    """Return an equivalent head that computes less, or the head itself if there is nothing to save."""
    if not isinstance(head, fx.GraphModule):
        return head
    graph = fx.Graph()
    graph.output(graph.graph_copy(head.graph, {}))
    short = fx.GraphModule(head, graph)
    saved = False
    for node in list(short.graph.nodes):
        if node.op == "call_function" and node.target is operator.getitem and node.args[1] == (slice(None), 0):
            mover = _Mover(short, node)
            node.args = (mover.first(node.args[0]), node.args[1])
            saved |= mover.attentions > 0
    if not saved:
        return head
    short.graph.eliminate_dead_code()
    short.graph.lint()
    short.recompile()
    return copy.copy(short).eval()


class _Mover:
    """Computes only the first token of what the node `before` reads; counts the attentions it reaches."""

    def __init__(self, module: fx.GraphModule, before: fx.Node) -> None:
        self.module, self.before = module, before
        self.done: dict[fx.Node, fx.Node] = {}
        self.attentions = 0

    def first(self, node: fx.Node) -> fx.Node:
        """Return a node whose value is the first token of `node`'s, ``(m, 1, d)``."""
        if node not in self.done:
            with self.module.graph.inserting_before(self.before):
                self.done[node] = self._make(node)
        return self.done[node]

    def _make(self, node: fx.Node) -> fx.Node:
        graph = self.module.graph
        # Weights that the graph reads directly (a layer scale) are the same for all tokens.
        inputs = [a for a in node.args if isinstance(a, fx.Node) and a.op != "get_attr"]
        attention = _attention_of(node)
        if attention is not None:
            self.attentions += 1
            query, *rest = attention.args
            one = graph.call_function(operator.getitem, (query, (slice(None), slice(None), slice(0, 1))))
            out = graph.create_node("call_function", attention.target, (one, *rest), dict(attention.kwargs))
            return graph.call_method("flatten", (graph.call_method("transpose", (out, 1, 2)), 2))
        if self._is_tokenwise(node) and len(inputs) == 1 and node.args[0] is inputs[0]:
            return graph.create_node(node.op, node.target, (self.first(inputs[0]), *node.args[1:]), dict(node.kwargs))
        if node.target in (operator.add, operator.iadd) and len(inputs) == 2:
            return graph.call_function(operator.add, (self.first(inputs[0]), self.first(inputs[1])))
        return graph.call_function(operator.getitem, (node, (slice(None), slice(0, 1))))

    def _is_tokenwise(self, node: fx.Node) -> bool:
        if node.op == "call_function":
            return node.target in (F.layer_norm, F.gelu, operator.mul)
        if node.op != "call_module":
            return False
        module = self.module.get_submodule(str(node.target))
        return isinstance(module, _TOKENWISE) or type(module).__name__ in _TOKENWISE_NAMES


def _attention_of(node: fx.Node) -> fx.Node | None:
    """Return the attention whose heads `node` puts side by side: ``a.transpose(1, 2).reshape(m, tokens, d)``."""
    if not (node.op == "call_method" and node.target in ("reshape", "view") and len(node.args) == 4):
        return None
    turned: Any = node.args[0]
    if not (isinstance(turned, fx.Node) and turned.target == "transpose" and turned.args[1:] == (1, 2)):
        return None
    attention: Any = turned.args[0]
    if not (isinstance(attention, fx.Node) and attention.target is F.scaled_dot_product_attention):
        return None
    options = dict(attention.kwargs)
    plain = len(attention.args) == 3 and options.get("attn_mask") is None and not options.get("is_causal")
    return attention if plain else None
