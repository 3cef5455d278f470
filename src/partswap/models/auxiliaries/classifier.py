"""The classifier that is explained, as its own auxiliary."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from partswap.cut.layers import default_layer
from partswap.cut.trunk import Trunk
from partswap.errors import SettingError
from partswap.images import Preprocess
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.preprocessing import preprocess_for


@AUXILIARIES.register("classifier")
def classifier(*, weights: str | Path | None = None, layer: str | None = None) -> Auxiliary:
    """Say that it takes a classifier: it is made by `of_classifier`."""
    raise SettingError(
        'the auxiliary "classifier" needs the classifier that is explained.',
        'Use it in an Explainer, or call load_auxiliary("classifier", classifier=model).',
    )


def of_classifier(model: nn.Module, layer: str | None = None, preprocess: Preprocess | None = None) -> Auxiliary:
    """Return a classifier's own features, by default at the layer it is cut at by default."""
    preprocess = preprocess or preprocess_for(model)
    return Auxiliary("classifier", Trunk(model, layer or default_layer(model), size=preprocess.size), preprocess)
