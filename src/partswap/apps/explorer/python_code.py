"""The Python that reproduces a view, from the same features."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from partswap.apps.explorer.room import Room
from partswap.apps.explorer.view import View
from partswap.runs.config import RunConfig
from partswap.search import METHODS, Method

#: What decides which features there are.
FIELDS = ("data", "path", "split", "options", "model", "weights", "classes", "layer", "auxiliary", "tau", "precision")


def python_of(room: Room, view: View) -> str:
    """Return a program that makes the counterfactual of a view; a dropped image is named as a file to be filled in."""
    own = view.swaps is not None
    donors = room.drawn(view)[: room.count(view)]
    imports = [
        "from partswap import METHODS" if not own else "",
        "from partswap.runs.config import RunConfig",
        "from partswap.runs.workbench import open_workbench",
        "from partswap.search.follow import follow" if own else "",
        "from partswap.search.problem import Problem" if own else "",
    ]
    lines = [line for line in imports if line]
    lines += ["", f"bench = open_workbench(RunConfig({_arguments(_told(room.config))}))"]
    lines += ["explainer, features = bench.explainer, bench.encodings  # computed once, then read from the cache"]
    if view.upload is not None:
        lines += ['query = explainer.encode(["your-image.jpg"])  # the image you dropped']
    else:
        lines += [f"query = features.select([{view.image}])  # {_comment(room.query(view).name)}"]
    lines += [f"distractors = features.select({donors})"]
    lines += [f"target = {view.target}  # {_comment(room.name(view.target or 0))}", ""]
    if own:
        lines += ["problem = Problem.of(query.cut_grids, distractors.grids, target)"]
        lines += [f"cf = follow(explainer.plan, problem, {list(view.swaps or ())})"]
    else:
        lines += [f"method = METHODS.get({view.method!r})({_arguments(_settings(room.method(view), view.method))})"]
        lines += ["cf = explainer.explain(query, distractors, target, method=method, keep_misclassified=True)"]
    return "\n".join([*lines, "print(cf)", ""])


def _told(config: RunConfig) -> dict[str, Any]:
    """Return the fields of a configuration that are not as usual."""
    told = {}
    for name in FIELDS:
        value = getattr(config, name)
        if value != RunConfig.model_fields[name].default:
            told[name] = str(value) if isinstance(value, Path) else value
    return told


def _settings(method: Method, name: str) -> dict[str, Any]:
    """Return the settings of a method that are not as usual."""
    usual = METHODS.get(name)()
    known = [f.name for f in fields(method) if f.init and isinstance(getattr(method, f.name), int | float | str)]
    return {name: getattr(method, name) for name in known if getattr(method, name) != getattr(usual, name)}


def _arguments(told: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in told.items())


def _comment(text: str) -> str:
    """Return text that stays within a comment."""
    return " ".join(text.split())
