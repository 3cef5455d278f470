"""A table of one's own that says what classes have: one row per class, attribute and value.

::

    class,attribute,value
    Blue Jay,wing colour,blue
    Blue Jay,wing colour,white
    Blue Jay,crest shape,pointed

An attribute is called by its part and its property ("wing colour" is about the wing); a fourth column ``part`` says
otherwise. A class may have several values, or none.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from partswap.data.base import Attributes, Meaning
from partswap.data.text import read_text
from partswap.errors import DataError, suggest
from partswap.models.names import normalize_name

COLUMNS = ("class", "attribute", "value")


def read_attributes(path: Path, classes: Sequence[str]) -> Attributes:
    """Read a table of attributes of some classes."""
    rows = csv.DictReader(read_text(path).splitlines())
    names = [name.strip().lower() for name in rows.fieldnames or ()]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]!r}.",
            f"Its first line must be {','.join(COLUMNS)}, or with part as well.",
        )
    rows.fieldnames = names
    known = {normalize_name(name): k for k, name in enumerate(classes)}
    had: dict[Meaning, set[int]] = {}
    for number, row in enumerate(rows, 2):
        cells = {name: (row.get(name) or "").strip() for name in (*COLUMNS, "part")}
        if not all(cells[name] for name in COLUMNS):
            raise DataError(f"line {number} of {path} is not complete.", f"Give {', '.join(COLUMNS)}.")
        if normalize_name(cells["class"]) not in known:
            raise DataError(
                f"line {number} of {path}: there is no class {cells['class']!r}.",
                suggest(cells["class"], classes) or "Use the names of the class folders.",
            )
        words = cells["attribute"].split()
        part = cells["part"] or " ".join(words[:-1]) or None
        meaning = Meaning(part, cells["attribute"], cells["value"])
        had.setdefault(meaning, set()).add(known[normalize_name(cells["class"])])
    if not had:
        raise DataError(f"{path} holds no attribute.", "Give at least one row.")
    share = np.zeros((len(classes), len(had)))
    for column, having in enumerate(had.values()):
        share[sorted(having), column] = 1
    return Attributes([f"{kind}::{value}" for _, kind, value in had], share, list(had))
