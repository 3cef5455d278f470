"""Names of classes: from a file, from the model, or ImageNet's."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn

from partswap import _vision
from partswap.errors import ClassIndexError, FileFormatError, SettingError, ShapeError, suggest


def numbered(count: int) -> list[str]:
    """Return stand-ins for unknown class names."""
    return [f"class {k}" for k in range(count)]


def class_names(given: Any, model: nn.Module, classes: int) -> list[str] | None:
    """Return the names of a model's classes, None if nobody knows them.

    `given` is a list, a mapping from numbers, a file (see `read_names`), ``"imagenet"``, or None: then what the model
    itself says, and ImageNet's for a network of torchvision or timm with 1,000 classes.
    """
    if given is None:
        names = getattr(model, "class_names", None)
        library = type(model).__module__.partition(".")[0]
        if names is None and classes == 1000 and library in ("torchvision", "timm"):
            names = imagenet_names()
        return check_names(names, classes) if isinstance(names, list | tuple) else None
    if isinstance(given, str | PathLike):
        return check_names(imagenet_names() if str(given) == "imagenet" else read_names(given), classes)
    if isinstance(given, Mapping):
        given = _of_mapping(given, "class_names")
    if not isinstance(given, Sequence):
        raise SettingError(f"class_names is a {type(given).__name__}.", "Give a list of names, or a file of them.")
    return check_names([str(name) for name in given], classes)


def check_names(names: Sequence[str], classes: int) -> list[str]:
    """Return names after checking that there is one per class."""
    if len(names) != classes:
        raise ShapeError(
            f"{len(names)} class names for a model with {classes} classes.",
            "Give one name per class, in the order of the logits.",
        )
    return list(names)


def read_names(path: str | PathLike[str]) -> list[str]:
    """Return the names of a file: one per line, or JSON (a list, or a mapping from numbers, as ``id2label`` is).

    Lines that all begin with their number, as in the ``classes.txt`` of CUB, are read without it.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileFormatError(f"there is no file {path} of class names ({error.strerror}).", "Check it.") from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not text ({error}).", "Write one name per line.") from error
    except ValueError as error:  # a path cannot hold a null character
        raise FileFormatError(f"{str(path)!r} is not a path ({error}).", "Check it.") from error
    if path.suffix == ".json":
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise FileFormatError(f"{path} is not JSON ({error}).", "Write a list of names.") from error
        found = found.get("id2label", found) if isinstance(found, dict) else found
        names = _of_mapping(found, str(path)) if isinstance(found, dict) else found
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FileFormatError(f"{path} holds no list of names.", 'Write ["first class", "second class", ...].')
        return names
    names = [line.strip() for line in text.splitlines() if line.strip()]
    split = [line.split(None, 1) for line in names]
    for first in (0, 1):
        if names and all(len(s) == 2 and s[0] == str(k) for k, s in enumerate(split, first)):
            names = [s[1] for s in split]
    if not names:
        raise FileFormatError(f"{path} holds no names.", "Write one name per line.")
    return names


def _of_mapping(found: Mapping[Any, Any], where: str) -> list[str]:
    try:
        numbers = {int(k): str(v) for k, v in found.items()}
        return [numbers[k] for k in range(len(numbers))]
    except (KeyError, ValueError) as error:
        raise FileFormatError(f"{where} does not name the classes 0, 1, 2, ... one by one.", "Name each.") from error


def imagenet_names() -> list[str]:
    """Return the names of ImageNet's 1,000 classes, in the order all its networks have."""
    return list(_vision.torchvision("models._meta")._IMAGENET_CATEGORIES)


def find_class(target: Any, names: Sequence[str] | None, classes: int) -> int:
    """Return the index of a class given by name or by number.

    A name is looked for as it is, then whatever its case and with blanks for underscores; the folder's name
    ``005.Spectacled_Warbler`` stands for ``Spectacled Warbler``, and never for class 5.
    """
    if not isinstance(target, str):
        return class_index(target, classes)
    if names:
        same = [k for k, name in enumerate(names) if name == target]
        same = same or [k for k, name in enumerate(names) if plain(name) == plain(target)]
        if len(same) == 1:
            return same[0]
        if len(same) > 1:
            raise ClassIndexError(
                f"{len(same)} classes are called {target!r}.", f"Give a number: {', '.join(map(str, same))}."
            )
    if target.isdecimal():
        return find_class(int(target), names, classes)
    if not names:
        raise SettingError(
            f"target is {target!r} but the names of the classes are unknown.",
            "Give them with {class_names}, or the number of the class.",
        )
    raise ClassIndexError(
        f"there is no class {target!r}.", suggest(target, names) or f"Use a name or a number from 0 to {classes - 1}."
    )


def class_index(target: Any, classes: int) -> int:
    """Return a class index as a plain integer; anything out of range is an error."""
    try:
        index = -1 if isinstance(target, bool) else operator.index(target)
    except TypeError:
        index = -1
    if not 0 <= index < classes:
        raise ClassIndexError(f"target {target!r} is not a class.", f"Use a number from 0 to {classes - 1}.")
    return index


def plain(name: str) -> str:
    """Return a name for comparison: no number in front, no case, blanks for underscores and hyphens."""
    number, dot, rest = name.partition(".")
    name = rest if dot and rest and number.isdecimal() else name
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())
