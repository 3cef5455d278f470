"""The label-free auxiliary for the aviary, shipped with the package."""

from __future__ import annotations

from pathlib import Path

from partswap.cut.trunk import Trunk
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.shipped import PREPROCESS, build, load
from partswap.models.weights import load_strictly, read_weights


@AUXILIARIES.register("aviary")
def aviary_auxiliary(*, weights: str | Path | None = None, layer: str | None = None) -> Auxiliary:
    """Return the auxiliary that ``partswap aviary train auxiliary`` makes, or one it made (`weights`)."""
    if weights is None:
        model = load("auxiliary")
    else:
        model = build("auxiliary")
        load_strictly(model, read_weights(weights), str(weights), fix="Pass what partswap aviary train auxiliary made.")
    return Auxiliary("aviary", model if layer is None else Trunk(model, layer), PREPROCESS)
