"""Which part of a bird an attribute of CUB-200-2011 is about.

Attributes are called ``has_<what>::<value>``. Those of the whole bird (size, shape, primary colour, upper and under
parts) belong to no part. A pattern of the head belongs to the part that its value names; the others (plain, spotted,
unique) may be anywhere on the head and belong to no part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partswap.data.base import Attributes, Meaning
from partswap.utils.sides import merge_sides

#: Start of an attribute's group -> part.
GROUPS = {"has_bill_": "beak", "has_under_tail_": "tail", "has_upper_tail_": "tail"} | {
    f"has_{part}_": part
    for part in ("back", "belly", "breast", "crown", "eye", "forehead", "leg", "nape", "tail", "throat", "wing")
}
#: Value of ``has_head_pattern`` -> part.
HEAD_PATTERNS = (
    dict.fromkeys(("capped", "crested", "striped"), "crown")
    | dict.fromkeys(("eyebrow", "eyeline", "eyering", "masked"), "eye")
    | {"malar": "throat"}
)


def attribute_part(name: str) -> str | None:
    """Return the part an attribute is about (left and right as one), None if it is about none.

    Examples
    --------
    >>> attribute_part("has_upper_tail_color::blue"), attribute_part("has_size::small_(5_-_9_in)")
    ('tail', None)
    """
    group, _, value = name.partition("::")
    if group == "has_head_pattern":
        return HEAD_PATTERNS.get(value)
    return next((part for start, part in GROUPS.items() if f"{group}_".startswith(start)), None)


def attribute_meaning(name: str) -> Meaning:
    """Return what an attribute says, in words.

    Examples
    --------
    >>> attribute_meaning("has_under_tail_color::light_brown")
    Meaning(part='tail', kind='under tail colour', value='light brown')
    """
    group, _, value = name.partition("::")
    kind = group.removeprefix("has_").replace("_", " ").replace("color", "colour")
    return Meaning(attribute_part(name), kind, value.replace("_", " "))


class PartDifferences:
    """In which parts any two classes differ, by their attributes.

    A class has an attribute that more than half of its images have; a part differs when exactly one of the two classes
    has one of the part's attributes.

    Parameters
    ----------
    attributes : Attributes
        Of all classes.
    parts : sequence of str
        The data set's parts, the only ones returned. Where sides are apart, both differ.
    """

    def __init__(self, attributes: Attributes, parts: Sequence[str]) -> None:
        self.present = attributes.present()
        about = [meaning.part for meaning in attributes.meanings]
        self.columns: dict[str, NDArray[np.intp]] = {}
        for part in parts:
            columns = np.flatnonzero([a == merge_sides(part) for a in about])
            if len(columns):
                self.columns[part] = columns

    def __call__(self, first: int, second: int) -> frozenset[str]:
        """Return the parts in which two classes differ."""
        different = self.present[first] != self.present[second]
        return frozenset(part for part, columns in self.columns.items() if different[columns].any())
