"""What is known of a model before it is cut: its shadow copy, a recorded pass, its graph, where it can be cut."""

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
    advance_random_state,
    check_repeatable,
    equal_outputs,
    no_side_effects,
    record_forward,
    run,
    shadow_copy,
)
from partswap.cut.trace import Trace, trace_export, trace_fx
from partswap.errors import CutError, LayerError


class ModelInspection:
    """A model under inspection, through a shadow copy; every step is done once, when first needed.

    The recorded pass is of the model as it is; activations of the copy do not work in place, see
    `fall_back_to_in_place`.
    """

    def __init__(self, model: nn.Module, probe: Tensor | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise CutError(f"the model is a {type(model).__name__}.", "Pass a torch.nn.Module.")
        self._faithful = shadow_copy(model, in_place=True)
        self.record = record_forward(self._faithful, probe)
        in_place = any(getattr(module, "inplace", None) is True for module in model.modules())
        self.shadow = shadow_copy(self._faithful) if in_place else self._faithful
        self._in_place_decided = not in_place
        self._repeatable = False
        self._depends: dict[str, bool] = {}
        self._traces: dict[str, Trace | Exception] = {}
        self._layouts: dict[str, Layout] = {}

    def check_logits(self) -> None:
        """Raise an error if what the model returned for the probe is no finite logits."""
        check_logits(self._faithful, self.record)

    def check_classifier(self) -> None:
        """Raise an error if the model's classifier was taken away."""
        check_classifier(self._faithful, self.record)

    @property
    def has_classifier(self) -> bool:
        """Whether the model seems to end in a classifier."""
        return has_classifier(self._faithful, self.record)

    def check_repeatable(self) -> None:
        """Raise an error if the model returns something else for the probe the second time."""
        if not self._repeatable:
            check_repeatable(self._faithful, self.record)
            self._repeatable = True

    def fall_back_to_in_place(self) -> bool:
        """Let activations work in place if the logits depend on that; returns whether this call changed it.

        The test costs a pass, and is needed only where a cut does not reproduce the recorded logits.
        """
        if self._in_place_decided:
            return False
        self._in_place_decided = True
        with self.without_side_effects():
            logits = run(self.shadow, self.record.probe.clone())
        if equal_outputs(logits, self.record.logits, 1e-4):
            return False
        self.check_repeatable()  # or it is random
        self.shadow = self._faithful
        self._traces.clear()
        self._depends.clear()
        return True

    @contextmanager
    def without_side_effects(self) -> Iterator[None]:
        """Run without gradients and restore the random state; other random numbers are drawn than in the recorded pass.

        A model that draws random numbers therefore gives other logits than recorded, and is detected.
        """
        with no_side_effects(self.record.probe.device):
            advance_random_state(self.record.probe.device)
            yield

    def traces(self, failures: list[str] | None = None) -> Iterator[Trace]:
        """Give the graphs of the model, best first; note in `failures` why one could not be made."""
        makers: dict[str, Callable[[], Trace]] = {
            "fx": lambda: trace_fx(self.shadow),
            "export": lambda: trace_export(self.shadow, self.record.probe),
        }
        for route, make in makers.items():
            if route not in self._traces:
                try:
                    with self.without_side_effects():
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
            shape, hints = self.record.shapes[layer], self.record.hints(layer)
            self._layouts[layer] = find_layout(
                shape,
                layer,
                self.record.image,
                model=self.shadow,
                hints=hints,
                wider=lambda: self._shape_of_wider_images(layer),
            )
        return self._layouts[layer]

    def nearest_clean_layer(self, trace: Trace, layer: str) -> str | None:
        """Return the first layer after `layer` where the cut is clean, else the last one before it."""
        clean = clean_nodes(trace)
        order = {node: i for i, node in enumerate(trace.graph.nodes)}
        here = order[trace.outputs[layer]]
        candidates = []
        for name, node in trace.outputs.items():
            if node in clean and self.is_grid(name):
                candidates.append((order[node] < here, abs(order[node] - here), name.count("."), name))
        return min(candidates)[-1] if candidates else None

    def is_grid(self, layer: str) -> bool:
        """Return whether a layer's output is a grid of more than one cell."""
        try:
            return layer in self.record.shapes and bool(self.layout(layer))
        except LayerError:
            return False

    def can_replay(self, layer: str) -> bool:
        """Return whether the layer's output alone decides the logits, by trying; for models without a graph."""
        layout, probe, calls = self.layout(layer), self.record.probe, self.record.calls[layer]
        with self.without_side_effects():
            grids = layout.to_grid(ReplayFeatures(self.shadow, layer, calls)(probe))
            try:
                logits = ReplayHead(self.shadow, layer, calls, layout, probe)(*grids)
            except Exception:  # the model does not take what it gave: no place to cut
                return False
        return isinstance(logits, Tensor) and equal_outputs(logits, self.record.logits, 1e-4)

    @property
    def probe_images_differ(self) -> bool:
        """Whether the probe's images have logits of their own; with a new head of zeros they have not."""
        return not equal_outputs(self.record.logits, self.record.logits.flip(0))

    def logits_depend_on(self, layer: str) -> bool:
        """Return whether the logits depend on the cells; a ViT may read only the class token at its end."""
        layout, logits = self.layout(layer), self.record.logits
        if layout.prefix == 0 or not self.probe_images_differ:
            return True
        if layer not in self._depends:
            with self.without_side_effects():
                calls, probe = self.record.calls[layer], self.record.probe
                swapped = with_swapped_cells(self.shadow, layer, calls, layout, probe)
            # Where nothing reads the cells the very same numbers come out, whatever their precision.
            self._depends[layer] = swapped is None or not equal_outputs(swapped.float(), logits.float())
        return self._depends[layer]

    def _shape_of_wider_images(self, layer: str) -> tuple[int, ...] | None:
        probe = self.record.probe
        features = ReplayFeatures(self.shadow, layer, self.record.calls[layer])
        try:
            with self.without_side_effects():
                return tuple(features(F.pad(probe, (0, probe.shape[3]))).shape)
        except Exception:  # the model takes images of one size only
            return None
