"""Auxiliaries: models that say which cells show the same part, registered by name.

To add one, drop a file into this folder with a function ``(*, weights=None, layer=None)`` that returns an `Auxiliary`
and ``@AUXILIARIES.register("name")``.
"""

from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.auxiliaries.choose import load_auxiliary

__all__ = ["AUXILIARIES", "Auxiliary", "load_auxiliary"]
