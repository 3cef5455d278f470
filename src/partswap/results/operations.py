"""What packages above this one do with a counterfactual: draw it, paste it, verify it.

Results are plain data and import neither figures nor models. `partswap` registers where each operation lives when it is
imported; the module behind it is imported when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_LOCATIONS: dict[str, str] = {}


def register_operations(locations: Mapping[str, str]) -> None:
    """Register functions by name, each as ``"package.module:function"``."""
    _LOCATIONS.update(locations)


def operation(name: str) -> Callable[..., Any]:
    """Return a registered function; its first argument is the counterfactual."""
    module, _, function = _LOCATIONS[name].partition(":")
    function_of_module: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return function_of_module
