"""What an `Explainer` is given, opened: the classifier, cut and returning logits, and the auxiliary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from partswap.cut.network import Cut
from partswap.errors import CutError, InputError, SettingError
from partswap.evaluators import Activation
from partswap.inputs.preprocess import Preprocess, Tensors
from partswap.models.auxiliaries import Auxiliary, AuxiliaryChoice, ClassifierContext, build_auxiliary
from partswap.models.checkpoints import Classifier
from partswap.models.huggingface import adapt, is_classifier
from partswap.models.names import class_names as names_of
from partswap.models.names import placeholder_names
from partswap.models.open import is_architecture, open_classifier
from partswap.models.outputs import cut_as_logits
from partswap.models.precision import device_of, find_device
from partswap.models.preprocessing import as_preprocess, assumption, suggest_input_size
from partswap.utils.notes import Note
from partswap.utils.progress import Track

#: What may be given as an auxiliary.
AuxiliaryLike = str | AuxiliaryChoice | Auxiliary | nn.Module | None


@dataclass(frozen=True)
class OpenedModel:
    """A classifier that returns logits, cut in two, and how images become its inputs."""

    model: nn.Module
    cut: Cut
    preprocess: Preprocess
    class_names: Sequence[str] | None
    name: str  #: the class of the module that was given
    trained_on: str | None  #: fingerprint of the data set it was trained on, if that was recorded
    notes: list[Note]  #: what was assumed or adapted


def open_model(
    model: nn.Module | Classifier | str | Path,
    layer: str | nn.Module | None,
    *,
    preprocess: Any,
    tensors: Tensors | None,
    class_names: Any,
    weights: str | Path | None,
    device: str | torch.device | None,
    activation: Activation,
    track: Track,
) -> OpenedModel:
    """Open and cut a classifier; the parameters are those of `Explainer`."""
    if isinstance(model, str | Path):
        # An architecture gets its official weights unless others are given.
        weights = "default" if weights is None and is_architecture(str(model)) else weights
        model = open_classifier(str(model), weights, preprocess=preprocess)
    elif weights is not None:
        raise SettingError("weights are given with a model that has its own.", "Give them with a name.")
    trained_on = None
    if isinstance(model, Classifier):
        trained_on = model.record.get("data")
        preprocess = model.preprocess if preprocess is None else preprocess
        own_names = list(model.classes)
        if class_names is None and own_names and own_names != placeholder_names(len(own_names)):
            class_names = own_names
        model = model.model
    if not isinstance(model, nn.Module):
        raise CutError(f"the model is a {type(model).__name__}.", "Pass a torch.nn.Module, or a name.")
    model = adapt(model) if is_classifier(model) else model
    model = model if device is None else model.to(find_device(device))
    preprocess = as_preprocess(preprocess, model)
    preprocess = preprocess if tensors is None else replace(preprocess, tensors=tensors)
    try:
        with_logits, cut, notes = cut_as_logits(
            model, layer, preprocess.probe().to(device_of(model)), track, activation
        )
    except InputError as error:
        raise suggest_input_size(error, model, preprocess) from error
    names = names_of(class_names, model, cut.classes)
    notes = [note for note in notes if note.kind != "features" or not names]  # what has names of classes has classes
    assumed = assumption(preprocess)
    notes += [Note("preprocess", assumed)] if assumed else []
    return OpenedModel(with_logits, cut, preprocess, names, type(model).__name__, trained_on, notes)


def open_auxiliary(auxiliary: AuxiliaryLike, opened: OpenedModel) -> Auxiliary | None:
    """Return the auxiliary that was named or given, for a classifier; None if there is to be none."""
    if isinstance(auxiliary, str):
        auxiliary = None if auxiliary == "none" else AuxiliaryChoice.parse(auxiliary)
    if isinstance(auxiliary, AuxiliaryChoice):
        context = ClassifierContext(opened.model, opened.preprocess, opened.cut.layer, opened.trained_on)
        auxiliary = build_auxiliary(auxiliary, context)
        auxiliary.model.to(device_of(opened.model))
    elif isinstance(auxiliary, nn.Module):
        return Auxiliary(type(auxiliary).__name__, auxiliary, opened.preprocess)
    if auxiliary is not None and not isinstance(auxiliary, Auxiliary):
        raise SettingError(
            f"the auxiliary is a {type(auxiliary).__name__}.", "Give a name, a torch.nn.Module, or None."
        )
    return auxiliary
