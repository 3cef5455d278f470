"""Auxiliaries: models that say which cells show the same part, registered by name.

To add one, drop a file into this folder with a function from an `AuxiliaryChoice` (and the classifier that is
`ClassifierContext`, which few want) to an `Auxiliary`, and ``@AUXILIARIES.register("name")``.
"""

from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.auxiliaries.load import build_auxiliary, check_auxiliary, load_auxiliary

__all__ = [
    "AUXILIARIES",
    "Auxiliary",
    "AuxiliaryChoice",
    "ClassifierContext",
    "build_auxiliary",
    "check_auxiliary",
    "load_auxiliary",
]
