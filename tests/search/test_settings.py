"""Defaults of search settings stand once: in `SearchSettings`."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from partswap.search import METHODS, SearchSettings
from partswap.search.methods import Method

SOURCE = Path(__file__).parents[2] / "src" / "partswap"
DEFAULTS = {f.name: f.default for f in fields(SearchSettings) if f.default is not None}


def defaults(tree):
    """Yield names that get a constant as a default: fields of classes and parameters of functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant):
            yield ast.unparse(node.target), node.value.value
        elif isinstance(node, ast.arguments):
            positional = node.posonlyargs + node.args
            pairs = [*zip(reversed(positional), reversed(node.defaults), strict=False)]
            pairs += zip(node.kwonlyargs, node.kw_defaults, strict=True)
            yield from ((a.arg, d.value) for a, d in pairs if isinstance(d, ast.Constant))


def test_each_default_stands_once_in_the_source():
    places = [
        (name, str(file.relative_to(SOURCE)))
        for file in sorted(SOURCE.rglob("*.py"))
        for name, value in defaults(ast.parse(file.read_text()))
        if name in DEFAULTS and value == DEFAULTS[name]
    ]
    assert sorted(places) == sorted((name, "search/settings.py") for name in DEFAULTS)


@pytest.mark.parametrize("name", ["lam", "beam"])
def test_pages_have_no_defaults_of_their_own(name):
    own = re.compile(rf"\b{name}\b\W{{1,4}}{DEFAULTS[name]}\b")
    pages = [file for kind in ("*.js", "*.html") for file in SOURCE.rglob(kind)]
    assert pages
    assert [str(file) for file in pages if own.search(file.read_text())] == []


@pytest.mark.parametrize("name", METHODS.names())
def test_methods_have_the_defaults_of_the_settings_they_take(name):
    method = METHODS.get(name)()
    assert isinstance(method, Method)
    assert all(getattr(method, setting) == DEFAULTS[setting] for setting in DEFAULTS if method.takes(setting))
