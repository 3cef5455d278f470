"""Does a counterfactual hold? Its edits are applied once more, and the model is run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from partswap.cut.network import Cut
from partswap.errors import ClassIndexError, SettingError, ShapeError
from partswap.evaluators import log_probabilities
from partswap.grid import FeatureGrids, to_cells
from partswap.inputs.preprocess import Preprocess, stacked
from partswap.models.huggingface import adapt, is_classifier
from partswap.models.outputs import cut_as_logits
from partswap.models.precision import device_of
from partswap.models.preprocessing import recorded_preprocess
from partswap.results.counterfactual import Counterfactual
from partswap.results.verification import Verification

#: How far a probability may be from the trace, and how far where the model computes in half precision.
TOLERANCE, HALF_TOLERANCE = 1e-3, 0.02


def verify(cf: Counterfactual, model: Any, query: Any, distractors: Any, atol: float | None) -> Verification:
    """Return whether a counterfactual holds for a classifier, an explainer, a cut model or a head."""
    if hasattr(model, "explain") and hasattr(model, "cut"):  # an explainer knows how to prepare images
        return model.verify(cf, query, distractors, atol=atol)  # type: ignore[no-any-return]
    tensors = isinstance(query, Tensor) and isinstance(distractors, Tensor)
    network: nn.Module | None = None
    if isinstance(model, nn.Module):
        if tensors and tuple(query.shape[-2:]) == tuple(cf.grid) and not hasattr(model, "features"):
            return compare(cf, model, query, None, distractors, atol)
        network = adapt(model) if is_classifier(model) else model
        model = _cut_as(cf, network)
    if not isinstance(model, Cut):
        raise SettingError(f"a {type(model).__name__} is no model.", "Pass the classifier, or an Explainer.")
    if not tensors:
        preprocess = _preprocess_of(cf, network)
        inputs = stacked([preprocess(image)[0] for image in cf.images(query, distractors)])
        inputs = inputs if network is None else inputs.to(device_of(network))
        query, distractors = inputs[0], inputs[1:]
    return verify_inputs(cf, model, query, distractors, atol)


def verify_inputs(cf: Counterfactual, cut: Cut, query: Tensor, distractors: Tensor, atol: float | None) -> Verification:
    """Return whether a counterfactual holds for a cut model and its inputs ``(3, H, W)`` and ``(n, 3, H, W)``."""
    with torch.no_grad():
        grid, grids = cut.features(query[None]), cut.features(distractors)
    return compare(cf, cut.head, grid.values[0], grid.context, grids.values, atol)


def compare(
    cf: Counterfactual, head: nn.Module, query: Tensor, context: Tensor | None, distractors: Tensor, atol: float | None
) -> Verification:
    """Apply the edits to the query's grid, run the head on every step, and compare with the trace."""
    if tuple(query.shape[-2:]) != tuple(cf.grid) or len(distractors) != cf.distractors:
        raise ShapeError(
            f"query {tuple(query.shape)} and distractors {tuple(distractors.shape)} are not what this "
            f"counterfactual is about ({cf.distractors} distractors, {cf.grid} grid).",
            "Pass the same query and distractors the search saw.",
        )
    cells, distractor_cells = to_cells(query).clone(), to_cells(distractors)
    grids = [cells.clone()]
    for edit in cf.edits:
        cells[edit.query_cell] = distractor_cells[edit.distractor_cell]
        grids.append(cells.clone())
    batch = torch.stack(grids).transpose(1, 2).reshape(len(grids), -1, *cf.grid)
    with torch.no_grad():
        logits = torch.cat(
            [head(g[None] if context is None else FeatureGrids(g[None], context)) for g in batch]
        ).float()
    if cf.target >= logits.shape[1]:
        problem = f"target {cf.target} but the head has {logits.shape[1]} classes."
        raise ClassIndexError(problem, "Pass the head of this model.")
    if atol is None:
        weight = next((p for p in head.parameters() if p.is_floating_point()), batch)
        atol = HALF_TOLERANCE if weight.dtype in (torch.float16, torch.bfloat16) else TOLERANCE
    activation = cf.source.activation
    probabilities = log_probabilities(logits, activation)[:, cf.target].exp().tolist()
    predicted = int(logits[-1].argmax())
    claimed = [cf.before, *cf.trace]
    deviation = max(abs(p - s.target_probability) for p, s in zip(probabilities, claimed, strict=True))
    holds = deviation <= atol and (predicted == cf.target) == cf.flipped
    return Verification(holds, predicted, probabilities[-1], deviation)


def _cut_as(cf: Counterfactual, model: nn.Module) -> Cut:
    """Cut a classifier where this counterfactual's was."""
    if cf.source.layer is None or cf.source.frames is None:
        raise SettingError(
            "this counterfactual does not say where its model was cut.",
            "Pass the head and the grids: cf.verify(head, query, distractors).",
        )
    wide, high = cf.source.frames.size
    channels = len((cf.source.preprocess or {}).get("mean", (0, 0, 0)))
    probe = torch.randn(2, channels, high, wide, generator=torch.Generator().manual_seed(0)).to(device_of(model))
    activation = cf.source.activation
    return cut_as_logits(model, cf.source.layer, probe, activation=activation)[1]


def _preprocess_of(cf: Counterfactual, model: nn.Module | None) -> Preprocess:
    """Return how the images of a counterfactual were prepared: from its pictures, else its file, else the model."""
    if cf.pictures is not None and cf.pictures.preprocess is not None:
        return cf.pictures.preprocess
    return recorded_preprocess(cf.source.preprocess or {"function": "an unknown function"}, model)
