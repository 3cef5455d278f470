"""The Python that reproduces a view: public names, images, names of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from partswap.apps.explorer.service import ExplorerService
from partswap.apps.explorer.view import View
from partswap.models.multi_layer import MultiLayerFeatures
from partswap.runs.config import RunConfig
from partswap.search import METHODS, Method


def python_of(room: ExplorerService, view: View) -> str:
    """Return a program that makes the counterfactual of a view; a dropped image is named as a file to be filled in."""
    donors = room.drawn(view)[: room.count(view)]
    auxiliary = room.explainer.auxiliary
    # One that was trained says what is usual to it; the others are fitted to the data set.
    fitted = auxiliary is not None and isinstance(auxiliary.model, MultiLayerFeatures) and auxiliary.usual is None
    fitting = ["fitted_auxiliary"] if fitted else []
    method, how = _method(room, view)
    if view.upload is not None:
        query = ["image = 'your-image.jpg'  # the image you dropped"]
    else:
        query = [f"image = data[{view.image}]  # {_comment(room.query(view).name)}"]
    return "\n".join(
        [
            f"from partswap import {', '.join(sorted(['Explainer', *fitting, 'open_dataset', method]))}",
            "",
            f"data = open_dataset({_data(room.config)})",
            f"explainer = Explainer({_model(room.config)}, class_names=data.classes)",
            *(
                [
                    "fitted = fitted_auxiliary(data, explainer.auxiliary, explainer.preprocess)",
                    "explainer = explainer.with_auxiliary(fitted)",
                ]
                if fitted
                else []
            ),
            *query,
            f"examples = [data[k] for k in {donors}]",
            f"method = {how}",
            "cf = explainer.explain(",
            f"    image, examples, target={_target(room, view)}, method=method, keep_misclassified=True",
            ")",
            "print(cf)",
            'cf.plot("counterfactual.png")',
            "",
        ]
    )


def _target(room: ExplorerService, view: View) -> str:
    """Return the class as a name, where one class only has it, else as an index."""
    assert view.target is not None
    names = list(room.explainer.class_names or ())
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
    given = {"layer": config.layer, "weights": None if config.weights is None else str(config.weights)}
    given = {name: value for name, value in given.items() if value is not None}
    return f"{str(config.model)!r}, {_arguments({**given, 'auxiliary': config.auxiliary})}"


def _method(room: ExplorerService, view: View) -> tuple[str, str]:
    """Return the public name that makes the method, and how it is made."""
    if view.swaps is not None:
        return "OwnSwaps", f"OwnSwaps(edits={list(view.swaps)})"
    return "METHODS", f"METHODS.get({view.method!r})({_arguments(_settings(room.method(view), view.method))})"


def _settings(method: Method, name: str) -> dict[str, Any]:
    """Return the settings of a method that are not as usual and decide its result."""
    usual = METHODS.get(name)()
    settings = [f for f in fields(method) if f.init and f.name != "memory_mb"]
    known = [f.name for f in settings if isinstance(getattr(method, f.name), int | float | str)]
    return {name: getattr(method, name) for name in known if getattr(method, name) != getattr(usual, name)}


def _arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _comment(text: str) -> str:
    """Return text that stays within a comment."""
    return " ".join(text.split())
