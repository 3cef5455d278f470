"""Names of classes: from a file, from the model, or ImageNet's."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn

from partswap import _vision
from partswap.errors import ClassIndexError, FileFormatError, SettingError, ShapeError, suggest

#: Where JSON files keep the names, besides at their top.
NESTED = ("id2label", "label2id", "class_to_idx", "class_names", "classes", "names")
#: A line that begins with a number: "2 Blue Jay", "2: Blue Jay", "2,Blue Jay", or the number alone.
NUMBERED = re.compile(r"(\d+)(?:(?:\s*[,:;]\s*|[.)]?\s+)(\S.*))?")


def placeholder_names(count: int) -> list[str]:
    """Return stand-ins for unknown class names."""
    return [f"class {k}" for k in range(count)]


def class_names(given: Any, model: nn.Module, classes: int) -> list[str] | None:
    """Return the names of a model's classes, None if nobody knows them.

    `given` is a list, a mapping from numbers or to numbers, a file (see `read_names`), ``"imagenet"``, or None: then
    what the model itself says, and ImageNet's for a network of torchvision or timm with 1,000 classes.
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
            "Give one name per class, in the order of the logits. (A network without its classifier returns features.)",
        )
    return list(names)


def read_names(path: str | PathLike[str]) -> list[str]:
    """Return the names of a file: one per line, or JSON: a list, ``{"0": name}``, or ``{name: 0}``.

    Lines that all begin with a number, as in the ``classes.txt`` of CUB, are read without it, in the order of the
    numbers. Numbers alone are names.
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
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise FileFormatError(f"{path} is not JSON ({error}).", "Write a list of names.") from error
        if isinstance(content, dict):
            content = next((content[key] for key in NESTED if isinstance(content.get(key), dict | list)), content)
        names = _of_mapping(content, str(path)) if isinstance(content, dict) else content
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FileFormatError(f"{path} holds no list of names.", 'Write ["first class", "second class", ...].')
        return names
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise FileFormatError(f"{path} holds no names.", "Write one name per line.")
    split = [NUMBERED.fullmatch(line) for line in names]
    pairs = [(int(match[1]), match[2] or "") for match in split if match]
    if len(pairs) < len(names) or not any(name for _, name in pairs):  # numbers alone are names
        return names
    numbers = [number for number, _ in pairs]
    ordered = _in_order(pairs, str(path))
    if numbers != sorted(numbers) and numbers == sorted(numbers, key=str):
        raise FileFormatError(
            f"the lines of {path} are sorted as text, {', '.join(map(str, numbers[:4]))}, ...: whether the number or "
            "the line of a class counts is unclear.",
            "Sort them by number if it is that of the logit (sort -n); leave the numbers out if it is the line.",
        )
    return ordered


def _of_mapping(mapping: Mapping[Any, Any], source: str) -> list[str]:
    """Return names by number: of ``{"0": name}``, of ``{"0": [id, name]}``, or of ``{name: 0}``."""
    if all(isinstance(value, int) and not isinstance(value, bool) for value in mapping.values()):
        return _in_order([(number, str(name)) for name, number in mapping.items()], source)
    pairs = []
    for key, value in mapping.items():
        name = value[-1] if isinstance(value, list | tuple) and value else value
        if not str(key).isdecimal() or not isinstance(name, str):
            raise FileFormatError(
                f"{source} maps {key!r} to {value!r}: that is no number of a class with its name.",
                'Write {"0": "first class", ...} or {"first class": 0, ...}.',
            )
        pairs.append((int(key), name))
    return _in_order(pairs, source)


def _in_order(pairs: Sequence[tuple[int, str]], source: str) -> list[str]:
    """Return names in the order of their numbers, which begin with 0 or 1 and leave none out."""
    if not pairs:
        return []
    numbers = sorted(number for number, _ in pairs)
    for number, following in pairwise(numbers):
        if number == following:
            raise FileFormatError(f"{source} names the class {number} twice.", "Give every class its own number.")
    first = numbers[0]
    if first not in (0, 1) or numbers != list(range(first, first + len(numbers))):
        gap = next((k for k in range(first, numbers[-1]) if k not in numbers), first)
        raise FileFormatError(
            f"{source} numbers {len(pairs)} classes from {first} to {numbers[-1]}, and does not name them one by one"
            f"{f': {gap} is missing' if gap not in numbers else ''}.",
            "Name every class, from 0 or 1 on; a number that belongs to a name goes into a JSON list of names.",
        )
    named = dict(pairs)
    for number in numbers:
        if not named[number].strip():
            raise FileFormatError(f"{source} has no name for the class {number}.", "Name every class.")
    return [named[number] for number in numbers]


def imagenet_names() -> list[str]:
    """Return the names of ImageNet's 1,000 classes, in the order all its networks have."""
    return list(_vision.torchvision("models._meta")._IMAGENET_CATEGORIES)


def find_class(target: Any, names: Sequence[str] | None, classes: int) -> int:
    """Return the index of a class given by name or by number.

    A name is looked for as it is, then whatever its case and with blanks for underscores; the folder's name
    ``005.Spectacled_Warbler`` stands for ``Spectacled Warbler``, and never for class 5. Text is a number only if no
    class is called so; ``class 7`` is the class at index 7 even if another is called 7 (see `is_ambiguous`).
    """
    if not isinstance(target, str):
        return class_index(target, classes)
    if names:
        same = [k for k, name in enumerate(names) if name == target]
        same = same or [k for k, name in enumerate(names) if normalize_name(name) == normalize_name(target)]
        if len(same) == 1:
            return same[0]
        if len(same) > 1:
            raise ClassIndexError(
                f"{len(same)} classes are called {target!r}.", f"Give a number: {', '.join(map(str, same))}."
            )
    number = target.removeprefix("class ")
    if number.isdecimal():
        return find_class(int(number), names, classes)
    if not names:
        raise SettingError(
            f"target is {target!r} but the names of the classes are unknown.",
            "Give them with {class_names}, or the number of the class.",
        )
    raise ClassIndexError(
        f"there is no class {target!r}.", suggest(target, names) or f"Use a name or a number from 0 to {classes - 1}."
    )


def is_ambiguous(target: Any, names: Sequence[str] | None) -> bool:
    """Tell whether a number, as a number or as text, is the name of one class and the index of another."""
    number = str(target)
    if not names or not number.isdecimal() or number not in names or int(number) >= len(names):
        return False
    return names[int(number)] != number


def class_index(target: Any, classes: int) -> int:
    """Return a class index as a plain integer; anything out of range is an error."""
    try:
        index = -1 if isinstance(target, bool) else operator.index(target)
    except TypeError:
        index = -1
    if not 0 <= index < classes:
        raise ClassIndexError(f"target {target!r} is not a class.", f"Use a number from 0 to {classes - 1}.")
    return index


def normalize_name(name: str) -> str:
    """Return a name for comparison: no number in front, no case, blanks for underscores and hyphens."""
    number, dot, rest = name.partition(".")
    name = rest if dot and rest and number.isdecimal() else name
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())
