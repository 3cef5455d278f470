"""A classifier from what a user typed: a shipped one, a trained folder, or a name from the zoo with weights."""

from __future__ import annotations

from pathlib import Path

import torch

from partswap import aviary
from partswap.errors import SettingError
from partswap.models import shipped
from partswap.models.checkpoints import Classifier, load_classifier
from partswap.models.preprocessing import preprocess_for
from partswap.models.zoo import load_model


def open_classifier(model: str, weights: str | None = None) -> Classifier:
    """Return a classifier: ``aviary:vgg``, the folder of a trained one, or a name from the zoo with weights."""
    if model.startswith("aviary:"):
        names = [s.name for s in aviary.all_species()]
        return Classifier(shipped.load(model.removeprefix("aviary:")), model, names, shipped.PREPROCESS)
    if Path(model).is_dir():
        return load_classifier(model)
    if weights is None:  # a network that knows nothing is for tests of the library only
        raise SettingError(
            f"{model} has no weights.",
            "Pass --weights FILE, or --weights default for official ones; or name the folder of a trained classifier.",
        )
    network = load_model(model, weights=weights)
    preprocess = preprocess_for(network)
    with torch.no_grad():
        classes = network(torch.zeros(1, 3, preprocess.size, preprocess.size)).shape[1]
    return Classifier(network, model, numbered(int(classes)), preprocess)


def numbered(count: int) -> list[str]:
    """Return stand-ins for unknown class names."""
    return [f"class {k}" for k in range(count)]
