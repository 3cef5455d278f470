"""Options that users give: reading ``NAME=VALUE``, checking names and types, and help texts needed in two places."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from partswap.errors import SettingError, suggest

MODEL_HELP = (
    "Folder of a trained classifier, hf:FOLDER (Hugging Face), file.py:function or module:function of yours, "
    "aviary:vgg, aviary:resnet, or a torchvision or timm name with --weights."
)
AUXILIARY_HELP = (
    "Who says which cells show the same part: a folder (partswap train auxiliary), NAME, NAME@LAYER+LAYER, "
    "NAME=WEIGHTS or NAME=WEIGHTS@LAYER; auto: the best at hand; none: do without."
)

WORDS: dict[str, Any] = {"true": True, "yes": True, "false": False, "no": False, "null": None, "none": None}
WHOLE = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}


def parse_options(texts: Iterable[str] | None) -> dict[str, Any]:
    """Return ``NAME=VALUE`` texts as keyword arguments; numbers, true / false and none become what they are.

    Examples
    --------
    >>> parse_options(["supercategory=Birds", "test_share=0.2", "skip_bad=true"])
    {'supercategory': 'Birds', 'test_share': 0.2, 'skip_bad': True}
    """
    options: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingError(f"the option is {text!r}.", "Write NAME=VALUE.")
        options[name] = _value(value)
    return options


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if WHOLE.fullmatch(text):
        return int(text)
    return float(text) if NUMBER.fullmatch(text) else text


def check_options(
    takes: Callable[..., Any],
    given: Mapping[str, Any],
    *,
    what: str,
    word: str = "option",
    label: str = "the {word} {name} of {what}",
    reserved: Collection[str] = (),
) -> dict[str, Any]:
    """Return options as keyword arguments after checking their names and, by the annotations, their values.

    Parameters
    ----------
    takes, given : callable, Mapping[str, Any]
        The function, class or dataclass that takes the options, and their values by name.
    what, word, label : str
        What has the options, what it calls them, and how it names one with a wrong value, for messages.
    reserved : Collection[str]
        Parameters that are no options.

    Examples
    --------
    >>> def read(path: str, *, share: float = 0.5, seed: int = 0) -> None: ...
    >>> check_options(read, {"share": "1e-3", "seed": 7}, what="the reader", reserved=["path"])
    {'share': 0.001, 'seed': 7}
    """
    if not given:
        return {}
    parameters = inspect.signature(takes).parameters.values()
    # Of a dataclass, not of its __init__: what a base class in another file says is read with the names of that file.
    kinds = get_type_hints(takes.__init__ if inspect.isclass(takes) and not is_dataclass(takes) else takes)
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in reserved]
    kinds_by_name = {name: kinds.get(name, inspect.Parameter.empty) for name in names}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in given:
        if not (name in kinds_by_name or takes_any):
            raise SettingError(
                f"{what} has no {word} {name!r}.",
                f"{suggest(name, kinds_by_name)} It has: {', '.join(kinds_by_name)}.".strip(),
            )
    return {
        name: _checked(kinds_by_name.get(name, Any), value, label.format(name=name, what=what, word=word))
        for name, value in given.items()
    }


def _checked(kind: Any, value: Any, label: str) -> Any:
    """Return a value if it is what the annotation `kind` says; anything goes where there is none.

    The check is strict (a bool is no int), but an int is a float, a text can be a path, and a text that is a number
    can be a float, because YAML takes 1e-3 for a word.
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    if kind is inspect.Parameter.empty:
        return value
    adapter = TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    for reading in _readings(value):
        try:
            adapter.validate_python(reading, strict=True)
        except ValidationError:
            continue
        return reading  # not pydantic's copy: who passes a list to be filled wants that list
    raise SettingError(f"{label} is {value!r}.", f"Give {_describe(kind)}.")


def _readings(value: Any) -> Iterator[Any]:
    """Yield a value and what else it may stand for."""
    yield value
    if not isinstance(value, int) and isinstance(value, Integral):  # what numpy calls one
        yield int(value)
    if isinstance(value, str):
        with suppress(ValueError):
            yield float(value)
        yield Path(value)


def _describe(kind: Any) -> str:
    """Return what to give where `kind` is wanted."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_describe(each) for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return KINDS.get(kind, str(getattr(kind, "__name__", kind)))
