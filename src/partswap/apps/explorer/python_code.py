"""The Python program that reproduces a view with public names only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from partswap.apps.explorer.service import ExplorerService
from partswap.apps.explorer.view import View
from partswap.models.multi_layer import MultiLayerFeatures
from partswap.runs.config import RunConfig
from partswap.search import METHODS, Method


def python_of(service: ExplorerService, view: View) -> str:
    """Return a program that computes the counterfactual of a view; a dropped image is a file name to be filled in."""
    distractors = service.distractor_indices(view)[: service.distractor_count(view)]
    auxiliary = service.explainer.auxiliary
    # A trained one brings its own statistics; the others are fitted to the data set.
    fitted = (
        auxiliary is not None
        and isinstance(auxiliary.model, MultiLayerFeatures)
        and auxiliary.typical_similarity is None
    )
    fitting = ["fitted_auxiliary"] if fitted else []
    method_import, method = _method(service, view)
    if view.upload is not None:
        query = ["image = 'your-image.jpg'  # the image you dropped"]
    else:
        query = [f"image = data[{view.image}]  # {_comment(service.query(view).name)}"]
    return "\n".join(
        [
            f"from partswap import {', '.join(sorted(['Explainer', *fitting, 'open_dataset', method_import]))}",
            "",
            f"data = open_dataset({_data(service.config)})",
            f"explainer = Explainer({_model(service.config)}, class_names=data.classes)",
            *(
                [
                    "fitted = fitted_auxiliary(data, explainer.auxiliary, explainer.preprocess)",
                    "explainer = explainer.with_auxiliary(fitted)",
                ]
                if fitted
                else []
            ),
            *query,
            f"examples = [data[k] for k in {distractors}]",
            f"method = {method}",
            "cf = explainer.explain(",
            f"    image, examples, target={_target(service, view)}, method=method, keep_misclassified=True",
            ")",
            "print(cf)",
            'cf.plot("counterfactual.png")',
            "",
        ]
    )


def _target(service: ExplorerService, view: View) -> str:
    """Return the class as a name, where one class only has it, else as an index."""
    assert view.target is not None
    names = list(service.explainer.class_names or ())
    name = names[view.target] if names else ""
    return repr(name) if names.count(name) == 1 else str(view.target)


def _data(config: RunConfig) -> str:
    arguments = [repr(config.data)]
    if config.path is not None:
        arguments.append(repr(str(config.path)))
    if config.split != RunConfig.model_fields["split"].default:
        arguments.append(f"split={config.split!r}")
    return ", ".join([*arguments, *([_arguments(config.options)] if config.options else [])])


def _model(config: RunConfig) -> str:
    options = {"layer": config.layer, "weights": None if config.weights is None else str(config.weights)}
    options = {name: value for name, value in options.items() if value is not None}
    return f"{str(config.model)!r}, {_arguments({**options, 'auxiliary': config.auxiliary})}"


def _method(service: ExplorerService, view: View) -> tuple[str, str]:
    """Return the public name to import for the method of a view, and the expression that makes the method."""
    if view.swaps is not None:
        return "OwnSwaps", f"OwnSwaps(edits={list(view.swaps)})"
    return "METHODS", f"METHODS.get({view.method!r})({_arguments(_settings(service.method(view), view.method))})"


def _settings(method: Method, name: str) -> dict[str, Any]:
    """Return the settings of a method that differ from its defaults and affect its result."""
    default = METHODS.get(name)()
    values = {f.name: getattr(method, f.name) for f in fields(method) if f.init and f.name != "memory_mb"}
    plain = {name: value for name, value in values.items() if isinstance(value, int | float | str)}
    return {name: value for name, value in plain.items() if value != getattr(default, name)}


def _arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _comment(text: str) -> str:
    """Return a text in one line, so that all of it is a comment."""
    return " ".join(text.split())
