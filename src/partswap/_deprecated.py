"""Public names of the release before this one: they work until the next release and warn."""

from __future__ import annotations

import warnings

#: Old name in `partswap` -> the name it has now.
RENAMED = {
    "Grids": "FeatureGrids",
}


def current_name(name: str) -> str:
    """Return what a name in `partswap` is called now; an old one gives a `DeprecationWarning` where it is used."""
    if name not in RENAMED:
        return name
    message = f"partswap.{name} is called partswap.{RENAMED[name]} now; the old name goes with the next release."
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return RENAMED[name]
