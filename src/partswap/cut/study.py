"""What is known of one model before it is cut: its mirror, a probed pass, its graph, where it can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import torch.nn.functional as F
from torch import Tensor, nn

from partswap.cut.graph import clean_nodes
from partswap.cut.layout import Layout, find_layout
from partswap.cut.mirror import mirror, quiet, same, survey, without_hooks
from partswap.cut.replay import ReplayFeatures, ReplayHead
from partswap.cut.trace import Trace, trace_export, trace_fx
from partswap.errors import CutError, LayerError


class Study:
    """A model under study, through its mirror; every step is done once, when first needed."""

    def __init__(self, model: nn.Module, probe: Tensor | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise CutError(f"the model is a {type(model).__name__}.", "Pass a torch.nn.Module.")
        self.twin = mirror(model)
        self.survey = survey(self.twin, probe)
        faithful = mirror(model, in_place=True)
        with self.quiet():
            faithful = without_hooks(faithful, self.survey.probe)
            if not same(faithful(self.survey.probe), self.survey.logits, 1e-4):  # it needs its in-place activations
                self.twin = faithful
                self.survey = survey(self.twin, probe)
        self._traces: dict[str, Trace | Exception] = {}
        self._layouts: dict[str, Layout] = {}

    def quiet(self) -> AbstractContextManager[None]:
        """Run without gradients and without a trace in the global random state."""
        return quiet(self.survey.probe.device)

    def traces(self, failures: list[str] | None = None) -> Iterator[Trace]:
        """Give the graphs of the model, best first; note in `failures` why one could not be made."""
        makers: dict[str, Callable[[], Trace]] = {
            "fx": lambda: trace_fx(self.twin),
            "export": lambda: trace_export(self.twin, self.survey.probe),
        }
        for route, make in makers.items():
            if route not in self._traces:
                try:
                    with self.quiet():
                        self._traces[route] = make()
                except Exception as error:  # tracers fail in as many ways as models can be written
                    self._traces[route] = error
            trace = self._traces[route]
            if isinstance(trace, Trace):
                yield trace
            elif failures is not None:
                reason = str(trace).strip().splitlines()[:1]
                failures.append(f"{route}: {type(trace).__name__}: {' '.join(reason)[:200]}")

    def layout(self, layer: str) -> Layout:
        """Return how a layer's output holds a grid."""
        if layer not in self._layouts:
            shape, hints = self.survey.shapes[layer], self.survey.hints(layer)
            self._layouts[layer] = find_layout(
                shape, layer, self.survey.image, model=self.twin, hints=hints, wider=lambda: self._wider(layer)
            )
        return self._layouts[layer]

    def output(self, layer: str, images: Tensor | None = None) -> Tensor:
        """Return what a layer gives for images, by default the probe."""
        features = ReplayFeatures(self.twin, layer, self.survey.calls[layer])
        raw: Tensor = features(self.survey.probe if images is None else images)
        return raw

    def nearest_clean(self, trace: Trace, layer: str) -> str | None:
        """Return the first layer after `layer` where the cut is clean, else the last one before it."""
        clean = clean_nodes(trace)
        order = {node: i for i, node in enumerate(trace.graph.nodes)}
        here = order[trace.outputs[layer]]
        found = []
        for name, node in trace.outputs.items():
            if node in clean and self.is_grid(name):
                found.append((order[node] < here, abs(order[node] - here), name.count("."), name))
        return min(found)[-1] if found else None

    def is_grid(self, layer: str) -> bool:
        """Tell whether a layer's output is a grid of more than one cell."""
        try:
            return layer in self.survey.shapes and bool(self.layout(layer))
        except LayerError:
            return False

    def replays(self, layer: str) -> bool:
        """Tell whether the layer's output alone decides the logits, by trying; for models without a graph."""
        return self._replayed(layer, swap=False)

    def matters(self, layer: str) -> bool:
        """Tell whether the logits depend on the cells; a ViT may read only the class token at its end."""
        alike = same(self.survey.logits, self.survey.logits.flip(0), 0.0)  # a new head of zeros tells nothing
        return self.layout(layer).prefix == 0 or alike or not self._replayed(layer, swap=True)

    def _replayed(self, layer: str, *, swap: bool) -> bool:
        """Tell whether the layer's output gives the probe's logits, as it is or with all cells swapped."""
        layout, (probe, logits) = self.layout(layer), self.survey[:2]
        with self.quiet():
            grid, context = layout.to_grid(self.output(layer))
            head = ReplayHead(self.twin, layer, self.survey.calls[layer], layout, probe)
            try:
                found: Tensor = head(grid.flip(0) if swap else grid, context)
            except Exception:  # the model does not take what it gave: no place to cut
                return False
        return same(found, logits, 0.0 if swap else 1e-4)

    def _wider(self, layer: str) -> tuple[int, ...] | None:
        probe = self.survey.probe
        try:
            with self.quiet():
                return tuple(self.output(layer, F.pad(probe, (0, probe.shape[3]))).shape)
        except Exception:  # the model takes images of one size only
            return None
