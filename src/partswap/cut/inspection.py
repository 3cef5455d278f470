"""What is known of one model before it is cut: its mirror, a probed pass, its graph, where it can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch.nn.functional as F
from torch import Tensor, nn

from partswap.cut.graph import clean_nodes
from partswap.cut.layout import Layout, find_layout
from partswap.cut.logits import check_classifier, check_logits, has_classifier
from partswap.cut.replay import ReplayFeatures, ReplayHead, with_swapped_cells
from partswap.cut.shadow_copy import (
    check_repeatable,
    equal_outputs,
    no_side_effects,
    other_randomness,
    record_forward,
    run,
    shadow_copy,
)
from partswap.cut.trace import Trace, trace_export, trace_fx
from partswap.errors import CutError, LayerError


class ModelInspection:
    """A model under study, through its mirror; every step is done once, when first needed.

    The survey is of the model as it is, the mirror's activations do not work in place; see `settle`.
    """

    def __init__(self, model: nn.Module, probe: Tensor | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise CutError(f"the model is a {type(model).__name__}.", "Pass a torch.nn.Module.")
        self._faithful = shadow_copy(model, in_place=True)
        self.survey = record_forward(self._faithful, probe)
        in_place = any(getattr(module, "inplace", None) is True for module in model.modules())
        self.twin = shadow_copy(self._faithful) if in_place else self._faithful
        self._settled = not in_place
        self._repeatable = False
        self._matters: dict[str, bool] = {}
        self._traces: dict[str, Trace | Exception] = {}
        self._layouts: dict[str, Layout] = {}

    def check_logits(self) -> None:
        """Raise an error if what the model returned for the probe is no finite logits."""
        check_logits(self._faithful, self.survey)

    def check_classifier(self) -> None:
        """Raise an error if the model's classifier was taken away."""
        check_classifier(self._faithful, self.survey)

    @property
    def has_classifier(self) -> bool:
        """Whether the model seems to end in a classifier."""
        return has_classifier(self._faithful, self.survey)

    def check_repeatable(self) -> None:
        """Raise an error if the model returns something else for the probe the second time."""
        if not self._repeatable:
            check_repeatable(self._faithful, self.survey)
            self._repeatable = True

    def settle(self) -> bool:
        """Let the mirror's activations work in place if the logits depend on that, and tell whether they just did.

        That costs a pass, and a cut that reproduces the survey needs no other proof; so it is asked when one does not.
        """
        if self._settled:
            return False
        self._settled = True
        with self.quiet():
            logits = run(self.twin, self.survey.probe.clone())
        if equal_outputs(logits, self.survey.logits, 1e-4):
            return False
        self.check_repeatable()  # or it is random
        self.twin = self._faithful
        self._traces.clear()
        self._matters.clear()
        return True

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Run without gradients, without a trace in the global random state, and with other numbers than the survey's.

        So a model that draws random numbers gives other logits than in the survey, and is found out.
        """
        with no_side_effects(self.survey.probe.device):
            other_randomness(self.survey.probe.device)
            yield

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

    @property
    def has_graph(self) -> bool:
        """Whether a tracer understands the model."""
        return next(self.traces(), None) is not None

    def layout(self, layer: str) -> Layout:
        """Return how a layer's output holds a grid."""
        if layer not in self._layouts:
            shape, hints = self.survey.shapes[layer], self.survey.hints(layer)
            self._layouts[layer] = find_layout(
                shape, layer, self.survey.image, model=self.twin, hints=hints, wider=lambda: self._wider(layer)
            )
        return self._layouts[layer]

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
        layout, probe, calls = self.layout(layer), self.survey.probe, self.survey.calls[layer]
        with self.quiet():
            grids = layout.to_grid(ReplayFeatures(self.twin, layer, calls)(probe))
            try:
                found = ReplayHead(self.twin, layer, calls, layout, probe)(*grids)
            except Exception:  # the model does not take what it gave: no place to cut
                return False
        return isinstance(found, Tensor) and equal_outputs(found, self.survey.logits, 1e-4)

    @property
    def tells_apart(self) -> bool:
        """Whether the probe's images have logits of their own; with a new head of zeros they have not."""
        return not equal_outputs(self.survey.logits, self.survey.logits.flip(0))

    def matters(self, layer: str) -> bool:
        """Tell whether the logits depend on the cells; a ViT may read only the class token at its end."""
        layout, logits = self.layout(layer), self.survey.logits
        if layout.prefix == 0 or not self.tells_apart:
            return True
        if layer not in self._matters:
            with self.quiet():
                found = with_swapped_cells(self.twin, layer, self.survey.calls[layer], layout, self.survey.probe)
            # Where nothing reads the cells the very same numbers come out, whatever their precision.
            self._matters[layer] = found is None or not equal_outputs(found.float(), logits.float())
        return self._matters[layer]

    def _wider(self, layer: str) -> tuple[int, ...] | None:
        probe = self.survey.probe
        features = ReplayFeatures(self.twin, layer, self.survey.calls[layer])
        try:
            with self.quiet():
                return tuple(features(F.pad(probe, (0, probe.shape[3]))).shape)
        except Exception:  # the model takes images of one size only
            return None
