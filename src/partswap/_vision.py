"""The one place that imports torchvision and timm, and only when someone asks.

The torchvision that a package registry serves may be a CUDA build whose compiled operators do not load beside
a CPU torch. Its import then stops at ``operator torchvision::nms does not exist``, although nothing here ever
calls that operator. Declaring it (and ``qnms``) is enough, and is done only after that very failure.
"""

from __future__ import annotations

import functools
import importlib
import pickle
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from partswap.errors import MissingDependencyError

# torch.library forgets a definition with the object that made it: keep them as long as the process lives.
_PLACEHOLDERS: list[torch.library.Library] = []


@functools.cache
def torchvision(part: str = "") -> ModuleType:
    """Return torchvision or a part of it, imported on first use; operators that do not load become placeholders."""
    if part:
        torchvision()
        return importlib.import_module(f"torchvision.{part}")
    try:
        return _import("torchvision")
    except RuntimeError:
        if hasattr(torch.ops.torchvision, "nms"):  # its operators are there: something else is wrong
            raise
    # The failed import leaves submodules behind that belong to no package: drop them, or the second import
    # would find them in sys.modules and never attach them.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    _declare_placeholders()
    return _import("torchvision")


@functools.cache
def timm() -> ModuleType:
    """Return timm, imported on first use."""
    torchvision()  # timm imports it, so it has to be importable first
    return _import("timm")


class Unpickler(pickle.Unpickler):
    """Reads what names torchvision or timm."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return a class or function; the two packages are imported as they are here."""
        package = module_name.partition(".")[0]
        if package in ("torchvision", "timm"):
            (timm if package == "timm" else torchvision)()
        return super().find_class(module_name, global_name)


def tracing_leaves() -> tuple[tuple[type, ...], tuple[Callable[..., Any], ...]]:
    """Return module classes and functions that a tracer must leave whole; none if timm is not in use."""
    layers = sys.modules.get("timm.layers")
    if layers is None or not hasattr(layers, "get_notrace_modules"):
        layers = sys.modules.get("timm.models._features_fx")
    if layers is None:
        return (), ()
    return tuple(layers.get_notrace_modules()), tuple(layers.get_notrace_functions())


def _declare_placeholders() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)
    _PLACEHOLDERS.append(library)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingDependencyError(f"{name} is not installed.", f"Run: pip install {name}") from error
