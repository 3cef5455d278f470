"""What a model returns, brought to logits: probabilities, and one logit for two classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from partswap.cut.inspection import ModelInspection
from partswap.cut.logits import ONLY
from partswap.cut.network import STEPS, Cut, cut_inspected, one_by_one
from partswap.cut.shadow_copy import equal_outputs, layer_name, shadow_copy
from partswap.errors import CutError
from partswap.evaluators.base import Activation
from partswap.models.huggingface import HuggingFaceClassifier
from partswap.utils.notes import Note
from partswap.utils.progress import Track, no_progress

#: Logarithms stop here: a probability that is 0 in float32 has no logarithm.
SMALLEST = 1e-30
_DEPENDS_ON_BATCH = (
    "what the model returns for an image depends on the others in its batch (dynamic quantization does that, for one): "
    "images and swaps are evaluated one by one, which is slow."
)
_FEATURES = (
    "the model seems to have {} classes, and no classifier at its end: if these are features, the explanations mean "
    "nothing; pass it with its classifier, or name its classes (class_names)."
)

#: A mean logit below this is suspicious: cross-entropy leaves it near 0 (the shipped ResNet's is -2), one sigmoid per
#: class, most of them off, near the logit of a small probability.
LOW = -3.0


class _LogitsOf(nn.Module):
    """A model, wrapped so that what it returns becomes logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)


class Logarithm(_LogitsOf):
    """A model that returns probabilities, with their logarithm: its softmax is the probabilities again."""

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(n, classes)``."""
        probabilities: Tensor = self.model(images)
        return probabilities.clamp(min=SMALLEST).log()


class OneLogit(_LogitsOf):
    """A model with one output for two classes, with a second logit that is always 0.

    The output is the logit of class 1, or its probability if `probability` is set.
    """

    def __init__(self, model: nn.Module, *, probability: bool) -> None:
        super().__init__(model)
        self.probability = probability

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(n, 2)``."""
        out: Tensor = self.model(images).reshape(-1, 1)
        if self.probability:
            out = out.clamp(SMALLEST, 1 - 1e-7).logit()
        return torch.cat([torch.zeros_like(out), out], 1)


class Sigmoids(_LogitsOf):
    """A model that returns one probability per class, each of its own sigmoid, with their logits."""

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(n, classes)``."""
        probabilities: Tensor = self.model(images)
        return probabilities.clamp(SMALLEST, 1 - 1e-7).logit()


def cut_as_logits(
    model: nn.Module,
    layer: str | nn.Module | None,
    probe: Tensor,
    track: Track = no_progress,
    activation: Activation = "softmax",
) -> tuple[nn.Module, Cut, list[Note]]:
    """Cut a model that may not give logits: return one that does, its cut, and what had to be done or is to be known.

    The pass that shows what the model returns is that of the inspection, unless something has to be done.
    """
    with track(f"inspecting {type(model).__name__}", STEPS) as advance:
        inspection = ModelInspection(model, probe)
        _check_trained(model)
        inspection.check_classifier()
        rows = _rows(inspection.record.logits, len(inspection.record.probe))
        if activation == "sigmoid":
            fitting, note = _sigmoids_as_logits(model, rows, inspection.record.probe)
        else:
            fitting, note = _with_logits(model, rows, inspection.record.probe)
        inspection = inspection if fitting is model else ModelInspection(fitting, probe)
        inspection.check_logits()
        notes = [] if note is None else [note]
        if not notes and not inspection.has_classifier:
            notes.append(Note("features", _FEATURES.format(inspection.record.logits.shape[1])))
        advance(1)
        name = None if layer is None else layer_name(fitting, _logits_inside(fitting, layer))
        cut = cut_inspected(inspection, name, advance=advance)
        if _depends_on_batch(fitting, inspection):
            cut, notes = one_by_one(cut), [*notes, Note("batch", _DEPENDS_ON_BATCH)]
        return fitting, cut, notes


def _depends_on_batch(model: nn.Module, inspection: ModelInspection) -> bool:
    """Tell whether the logits of an image become others with another image beside it, as after dynamic quantization."""
    probe, logits = inspection.record.probe, inspection.record.logits
    rows = outputs_of(model, torch.cat([probe[:1], 10 * probe[1:]]))
    return rows is not None and not equal_outputs(rows[:1], logits[:1].to(rows.dtype), 1e-4)


def _check_trained(model: nn.Module) -> None:
    """Raise an error if the classifier of a model of Hugging Face is random, since its file has none."""
    if isinstance(model, HuggingFaceClassifier) and model.untrained:
        raise CutError(
            f"the {model.kind} that {type(model.model).__name__} was loaded from has no classifier: "
            f"{', '.join(model.untrained)} would be random, and {ONLY}",
            "Give a checkpoint of a ...ForImageClassification, or train one (partswap train classifier).",
        )


def as_logits(model: nn.Module, probe: Tensor) -> tuple[nn.Module, Note | None]:
    """Return a model that gives logits, and what had to be done to it, if anything.

    Whatever else is wrong with what it returns is left to the cut, which says so.
    """
    if probe.device.type == "meta":
        return model, None
    return _with_logits(model, outputs_of(model, probe), probe)


def _with_logits(model: nn.Module, rows: Tensor | None, probe: Tensor) -> tuple[nn.Module, Note | None]:
    """Return a model that gives logits instead of the `rows` that it gives for the probe."""
    if rows is None:
        return model, None
    if rows.shape[1] == 1:
        probability = _are_probabilities(model, rows, probe)
        kind = "a probability" if probability else "one logit"
        text = f"the model returns {kind}: class 1 is yes, class 0 is no."
        return OneLogit(model, probability=probability), Note("outputs", text)
    certain = bool((rows >= 0).all()) and bool(((rows.sum(1) - 1).abs() < 1e-3).all())
    if certain:
        text = "the model returns probabilities; their logarithms are explained."
        return Logarithm(model), Note("outputs", text)
    if bool(((rows >= 0) & (rows <= 1)).all()) and _are_probabilities(model, rows, probe):
        text = (
            "all outputs are between 0 and 1 and do not sum to 1, as of one sigmoid per class; they are read as "
            'logits. If they are probabilities: activation="sigmoid" (--activation sigmoid).'
        )
        return model, Note("outputs", text)
    return model, None


def _are_probabilities(model: nn.Module, rows: Tensor, probe: Tensor) -> bool:
    """Tell whether outputs are from 0 to 1, for strong inputs too: a logit would leave that range."""
    strong = outputs_of(model, 30 * probe)
    outputs = rows if strong is None else torch.cat([rows, strong])
    return bool(((outputs >= 0) & (outputs <= 1)).all())


def _sigmoids_as_logits(model: nn.Module, rows: Tensor | None, probe: Tensor) -> tuple[nn.Module, Note | None]:
    """Return a model that gives the logits of one sigmoid per class, where it gives the probabilities themselves."""
    if rows is None or rows.shape[1] == 1:
        return _with_logits(model, rows, probe)
    if not _are_probabilities(model, rows, probe):
        return model, None
    return Sigmoids(model), Note("outputs", "the model returns one sigmoid per class; their logits are explained.")


def looks_multi_label(*logits: Tensor) -> bool:
    """Tell whether the logits of images ``(n, classes)`` look like those of several labels per image.

    Cross-entropy hardly moves the mean of the logits from where it began, near 0; one sigmoid per class, most of them
    off, moves it far below.
    """
    rows = torch.cat([part.float().cpu() for part in logits])
    low = bool(rows.mean() < min(LOW, -float(rows.std(1).mean()))) and rows.shape[1] > 2
    return low and 4 * int(((rows > 0).sum(1) > 1).sum()) >= len(rows)


def outputs_of(model: nn.Module, images: Tensor) -> Tensor | None:
    """Return a model's outputs in eval mode, None where they are no finite rows, one per image."""
    try:
        with torch.no_grad():
            out = shadow_copy(model)(images)
    except Exception:  # the cut runs it again and says what is wrong
        return None
    return _rows(out, len(images))


def _rows(out: Any, images: int) -> Tensor | None:
    """Return what a model returned as rows, one per image; None if it is nothing of the kind."""
    if isinstance(out, Tensor) and out.ndim == 1 and len(out) == images:
        out = out[:, None]
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != images:
        return None
    return out.float() if bool(torch.isfinite(out).all()) else None


def _logits_inside(model: nn.Module, layer: str | nn.Module) -> str | nn.Module:
    """Return a layer of the model inside, if the model was wrapped."""
    inside = getattr(model, "model", None)
    names = dict(model.named_modules())
    if isinstance(layer, str) and layer not in names and isinstance(inside, nn.Module) and f"model.{layer}" in names:
        return f"model.{layer}"
    return layer
