"""The label-free auxiliary for the aviary, shipped with the package."""

from __future__ import annotations

from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.shipped import PREPROCESS, load


@AUXILIARIES.register("aviary")
def aviary_auxiliary() -> Auxiliary:
    """Return the auxiliary that ``partswap aviary train auxiliary`` makes."""
    return Auxiliary("aviary", load("auxiliary"), PREPROCESS)
