"""Which attributes can be words: those of a part that someone can tell, and that some but not all classes have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from partswap.data.base import Attributes, Meaning
from partswap.errors import SettingError
from partswap.utils.sides import merge_sides


@dataclass(frozen=True)
class Vocabulary:
    """Attributes that can be words, and why the others cannot."""

    columns: list[int]  #: among those of the data set
    names: list[str]
    meanings: list[Meaning]
    left_out: list[dict[str, Any]]  #: name and reason


def vocabulary(attributes: Attributes | None, parts: Collection[str]) -> Vocabulary:
    """Return the attributes of a data set that can be words, given the parts that are told."""
    if attributes is None or not attributes.meanings:
        raise SettingError(
            "the data set has no attributes.", "Use cub or aviary, or give a folder an attributes.csv (docs/words.md)."
        )
    merged = {merge_sides(part) for part in parts}
    about = {meaning.part for meaning in attributes.meanings} - {None}
    if not about & merged:
        raise SettingError(
            f"no attribute is about a part that is told (attributes: {_some(about)}; told: {_some(merged)}).",
            "Use a detector or named clusters of these parts, or name the parts of the attributes alike.",
        )
    has = attributes.present()
    columns, left_out = [], []
    for column, (name, meaning) in enumerate(zip(attributes.names, attributes.meanings, strict=True)):
        count = int(has[:, column].sum())
        if meaning.part not in merged:
            left_out.append({"name": name, "why": "of no part" if meaning.part is None else "of a part nobody tells"})
        elif not 0 < count < len(has):
            left_out.append({"name": name, "why": "no class has it" if not count else "every class has it"})
        else:
            columns.append(column)
    if not columns:
        raise SettingError(
            "no attribute of these parts is had by some classes and not by others.", "Use a table with differences."
        )
    names, meanings = [attributes.names[k] for k in columns], [attributes.meanings[k] for k in columns]
    return Vocabulary(columns, names, meanings, left_out)


def _some(words: Collection[str | None]) -> str:
    listed = sorted(str(word) for word in words)
    return ", ".join(listed[:6]) + (", ..." if len(listed) > 6 else "")
