"""Counterfactual explanations of image classifiers, a head for a head and a tail for a tail.

The whole public face is a handful of names; they are imported when first used, so ``import partswap`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from partswap._deprecated import current_name
from partswap._version import __version__
from partswap.results.operations import register_operations

if TYPE_CHECKING:
    from partswap import aviary
    from partswap.cut.layers import default_layer, list_layers
    from partswap.cut.network import Cut, cut_network
    from partswap.data import DATASETS, on_canvas, open_dataset
    from partswap.errors import PartswapError
    from partswap.evaluators import HeadPlan
    from partswap.explainer.explainer import Explainer
    from partswap.grid import FeatureGrids, GridShape
    from partswap.inputs.images import fetch_image
    from partswap.inputs.preprocess import Preprocess
    from partswap.metrics import METRICS
    from partswap.models.auxiliaries import AUXILIARIES, Auxiliary, load_auxiliary
    from partswap.models.checkpoints import load_classifier
    from partswap.models.zoo import load_model
    from partswap.results.counterfactual import Counterfactual, Edit, Step
    from partswap.search import METHODS, SearchSettings, find_counterfactual, find_counterfactuals
    from partswap.search.apply import OwnSwaps

#: Where each public name lives.
_HOMES = {
    name: f"partswap.{home}"
    for home, names in {
        "aviary": ("aviary",),
        "results.counterfactual": ("Counterfactual", "Edit", "Step"),
        "cut.layers": ("default_layer", "list_layers"),
        "cut.network": ("Cut", "cut_network"),
        "data": ("DATASETS", "on_canvas", "open_dataset"),
        "errors": ("PartswapError",),
        "explainer": ("Explainer",),
        "grid": ("FeatureGrids", "GridShape"),
        "evaluators": ("HeadPlan",),
        "inputs.images": ("fetch_image",),
        "metrics": ("METRICS",),
        "models.auxiliaries": ("AUXILIARIES", "Auxiliary", "load_auxiliary"),
        "models.checkpoints": ("load_classifier",),
        "models.zoo": ("load_model",),
        "inputs.preprocess": ("Preprocess",),
        "search": ("METHODS", "SearchSettings", "find_counterfactual", "find_counterfactuals"),
        "search.apply": ("OwnSwaps",),
    }.items()
    for name in names
}

# What a counterfactual does by itself lives in packages above it.
register_operations(
    {
        "plot": "partswap.drawing.figures:draw",
        "html": "partswap.drawing.html:counterfactual_html",
        "outline": "partswap.drawing.regions:outline_edits",
        "composite": "partswap.pixels.composite:composite_edits",
        "verify": "partswap.explainer.verification:verify",
    }
)

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
    "FeatureGrids",
    "GridShape",
    "HeadPlan",
    "OwnSwaps",
    "PartswapError",
    "Preprocess",
    "SearchSettings",
    "Step",
    "__version__",
    "aviary",
    "cut_network",
    "default_layer",
    "fetch_image",
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
    name = current_name(name)
    if name not in _HOMES:
        raise AttributeError(f"module 'partswap' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    value = home if name == "aviary" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
