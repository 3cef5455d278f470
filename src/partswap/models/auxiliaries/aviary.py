"""The label-free auxiliary for the aviary, shipped with the package."""

from __future__ import annotations

from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.multi_layer import feature_extractor
from partswap.models.shipped import PREPROCESS, build, load
from partswap.models.weights import load_strictly, read_weights


@AUXILIARIES.register("aviary")
def aviary_auxiliary(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return the auxiliary that ``partswap aviary train auxiliary`` makes, or one it made (`weights`)."""
    if choice.weights is None:
        model = load("auxiliary")
    else:
        model = build("auxiliary")
        fix = "Pass what partswap aviary train auxiliary made."
        load_strictly(model, read_weights(choice.weights), choice.weights, fix=fix)
    return Auxiliary("aviary", model if choice.layer is None else feature_extractor(model, choice.layer), PREPROCESS)
