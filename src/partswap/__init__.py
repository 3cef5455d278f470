"""Counterfactual explanations of image classifiers, a head for a head and a tail for a tail.

The public names are those of `__all__`, and the public modules are `MODULES`; docs/python.md has them all with a line
each. They are imported when first used, so ``import partswap`` is quick.
"""

from __future__ import annotations

import importlib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from partswap._deprecated import current_name
from partswap._version import __version__
from partswap.results.operations import register_operations

if TYPE_CHECKING:
    from partswap import aviary as aviary
    from partswap.cut.layers import default_layer as default_layer
    from partswap.cut.layers import list_layers as list_layers
    from partswap.cut.network import Cut as Cut
    from partswap.cut.network import cut_network as cut_network
    from partswap.data import DATASETS as DATASETS
    from partswap.data import on_canvas as on_canvas
    from partswap.data import open_dataset as open_dataset
    from partswap.drawing.figures import FIGURES as FIGURES
    from partswap.errors import PartswapError as PartswapError
    from partswap.evaluators import HeadPlan as HeadPlan
    from partswap.explainer import Explainer as Explainer
    from partswap.explainer import PartswapWarning as PartswapWarning
    from partswap.explainer import explain as explain
    from partswap.features.encode import fitted_auxiliary as fitted_auxiliary
    from partswap.grid import FeatureGrids as FeatureGrids
    from partswap.grid import GridShape as GridShape
    from partswap.inputs.images import fetch_image as fetch_image
    from partswap.inputs.preprocess import Preprocess as Preprocess
    from partswap.metrics import METRICS as METRICS
    from partswap.models.auxiliaries import AUXILIARIES as AUXILIARIES
    from partswap.models.auxiliaries import Auxiliary as Auxiliary
    from partswap.models.auxiliaries import load_auxiliary as load_auxiliary
    from partswap.models.checkpoints import load_classifier as load_classifier
    from partswap.models.zoo import load_model as load_model
    from partswap.results.counterfactual import Counterfactual as Counterfactual
    from partswap.results.counterfactual import Edit as Edit
    from partswap.results.counterfactual import Step as Step
    from partswap.runs.run import read_run as read_run
    from partswap.search import METHODS as METHODS
    from partswap.search import SearchSettings as SearchSettings
    from partswap.search import find_counterfactual as find_counterfactual
    from partswap.search import find_counterfactuals as find_counterfactuals
    from partswap.search.apply import OwnSwaps as OwnSwaps

#: Where each public name lives.
_HOMES = {
    name: f"partswap.{home}"
    for home, names in {
        "cut.layers": ("default_layer", "list_layers"),
        "cut.network": ("Cut", "cut_network"),
        "data": ("DATASETS", "on_canvas", "open_dataset"),
        "drawing.figures": ("FIGURES",),
        "evaluators": ("HeadPlan",),
        "explainer": ("Explainer", "PartswapWarning", "explain"),
        "features.encode": ("fitted_auxiliary",),
        "grid": ("FeatureGrids", "GridShape"),
        "inputs.images": ("fetch_image",),
        "inputs.preprocess": ("Preprocess",),
        "metrics": ("METRICS",),
        "models.auxiliaries": ("AUXILIARIES", "Auxiliary", "load_auxiliary"),
        "models.checkpoints": ("load_classifier",),
        "models.zoo": ("load_model",),
        "results.counterfactual": ("Counterfactual", "Edit", "Step"),
        "runs.run": ("read_run",),
        "search": ("METHODS", "SearchSettings", "find_counterfactual", "find_counterfactuals"),
        "search.apply": ("OwnSwaps",),
        "errors": ("PartswapError",),
    }.items()
    for name in names
}
#: Public modules; docs/python.md says what each is for.
MODULES = (
    "partswap.analysis.matching",
    "partswap.aviary",
    "partswap.data.base",
    "partswap.errors",
    "partswap.metrics.base",
    "partswap.metrics.clarity",
    "partswap.search.clusters",
    "partswap.search.methods.base",
    "partswap.search.methods.hard",
    "partswap.search.methods.scout",
    "partswap.utils.cancel",
)

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
    *_HOMES,
    "__version__",
    "aviary",
    "list_auxiliaries",
    "list_datasets",
    "list_figures",
    "list_methods",
    "list_metrics",
]


def list_methods(pattern: str = "*") -> list[str]:
    """Return the names of the methods that match a pattern such as ``"s*"``; `METHODS` holds them."""
    return _names("METHODS", pattern)


def list_metrics(pattern: str = "*") -> list[str]:
    """Return the names of the metrics that match a pattern such as ``"*kp*"``; `METRICS` holds them."""
    return _names("METRICS", pattern)


def list_datasets(pattern: str = "*") -> list[str]:
    """Return the names of the data sets that match a pattern; `open_dataset` opens one."""
    return _names("DATASETS", pattern)


def list_auxiliaries(pattern: str = "*") -> list[str]:
    """Return the names of the auxiliaries that match a pattern; `load_auxiliary` loads one."""
    return _names("AUXILIARIES", pattern)


def list_figures(pattern: str = "*") -> list[str]:
    """Return the kinds of figures that match a pattern: ``cf.plot(kind=...)`` draws one."""
    return _names("FIGURES", pattern)


def _names(registry: str, pattern: str) -> list[str]:
    return [name for name in __getattr__(registry).names() if fnmatchcase(name, pattern)]


def __getattr__(name: str) -> Any:
    name = current_name(name)
    if name == "aviary":
        value: Any = importlib.import_module("partswap.aviary")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'partswap' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
