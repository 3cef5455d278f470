"""Counterfactual explanations of image classifiers, a head for a head and a tail for a tail.

The whole public face is a handful of names; they are imported when first used, so ``import partswap`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from partswap._version import __version__

if TYPE_CHECKING:
    from partswap import aviary
    from partswap.counterfactual import Counterfactual, Edit, Step
    from partswap.cut.layers import default_layer, list_layers
    from partswap.cut.network import Cut, cut_network
    from partswap.data import DATASETS, on_canvas, open_dataset
    from partswap.errors import PartswapError
    from partswap.explainer import Explainer
    from partswap.grid import GridShape
    from partswap.heads import HeadPlan
    from partswap.images import Preprocess
    from partswap.metrics import METRICS
    from partswap.models.auxiliaries import AUXILIARIES, Auxiliary, load_auxiliary
    from partswap.models.checkpoints import load_classifier
    from partswap.models.zoo import load_model
    from partswap.search import METHODS, find_counterfactual, find_counterfactuals

_HOMES = {
    "AUXILIARIES": "partswap.models.auxiliaries",
    "Auxiliary": "partswap.models.auxiliaries",
    "Counterfactual": "partswap.counterfactual",
    "DATASETS": "partswap.data",
    "Edit": "partswap.counterfactual",
    "Explainer": "partswap.explainer",
    "GridShape": "partswap.grid",
    "METHODS": "partswap.search",
    "METRICS": "partswap.metrics",
    "PartswapError": "partswap.errors",
    "Preprocess": "partswap.images",
    "Cut": "partswap.cut.network",
    "Step": "partswap.counterfactual",
    "aviary": "partswap.aviary",
    "default_layer": "partswap.cut.layers",
    "HeadPlan": "partswap.heads",
    "find_counterfactual": "partswap.search",
    "find_counterfactuals": "partswap.search",
    "list_layers": "partswap.cut.layers",
    "load_auxiliary": "partswap.models.auxiliaries",
    "load_classifier": "partswap.models.checkpoints",
    "load_model": "partswap.models.zoo",
    "on_canvas": "partswap.data",
    "open_dataset": "partswap.data",
    "cut_network": "partswap.cut.network",
}

__all__ = [
    "AUXILIARIES",
    "DATASETS",
    "METHODS",
    "METRICS",
    "Auxiliary",
    "Counterfactual",
    "Cut",
    "Edit",
    "Explainer",
    "GridShape",
    "HeadPlan",
    "PartswapError",
    "Preprocess",
    "Step",
    "__version__",
    "aviary",
    "cut_network",
    "default_layer",
    "find_counterfactual",
    "find_counterfactuals",
    "list_layers",
    "load_auxiliary",
    "load_classifier",
    "load_model",
    "on_canvas",
    "open_dataset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'partswap' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    value = home if name == "aviary" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
