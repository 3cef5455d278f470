"""The images of the data set to choose from, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from partswap.apps.explorer.pages import page
from partswap.apps.explorer.service import ExplorerService
from partswap.errors import SettingError

#: Images on one page.
MANY = 36


@dataclass(frozen=True)
class GalleryQuery:
    """Which images are looked for."""

    label: int | None = None
    wrong: bool = False  #: only those the model gets wrong
    page: int = 0


def read_gallery_query(given: Mapping[str, str]) -> GalleryQuery:
    """Return what an address asks for."""
    found = {}
    for name in ("class", "page"):
        text = given.get(name, "")
        if text and not (text.isascii() and text.isdecimal() and len(text) < 7):
            raise SettingError(f"{name} is {text[:40]!r}.", "Use a whole number.")
        found[name] = int(text) if text else None
    return GalleryQuery(found["class"], given.get("wrong") == "1", found["page"] or 0)


def gallery_html(room: ExplorerService, wanted: GalleryQuery, version: str) -> str:
    """Return a page of images."""
    chosen = np.ones(len(room.labels), bool)
    if wanted.label is not None:
        chosen &= room.labels == wanted.label
    if wanted.wrong:
        chosen &= ~room.right
    found = chosen.nonzero()[0].tolist()
    start = wanted.page * MANY
    shown = [
        (k, room.name(int(room.labels[k])), None if room.right[k] else room.name(int(room.said[k])))
        for k in found[start : start + MANY]
    ]
    more = start + MANY < len(found)
    return page("gallery", shown=shown, count=len(found), wanted=wanted, more=more, start=start, version=version)
