"""The images of the data set to choose from, one page after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from partswap.apps.explorer.pages import page
from partswap.apps.explorer.service import ExplorerService
from partswap.errors import SettingError

#: Images on one page.
PER_PAGE = 36


@dataclass(frozen=True)
class GalleryQuery:
    """Which images are listed."""

    label: int | None = None
    wrong: bool = False  #: only those the model gets wrong
    page: int = 0


def read_gallery_query(given: Mapping[str, str]) -> GalleryQuery:
    """Return the query that an address holds."""
    numbers = {}
    for name in ("class", "page"):
        text = given.get(name, "")
        if text and not (text.isascii() and text.isdecimal() and len(text) < 7):
            raise SettingError(f"{name} is {text[:40]!r}.", "Use a whole number.")
        numbers[name] = int(text) if text else None
    return GalleryQuery(numbers["class"], given.get("wrong") == "1", numbers["page"] or 0)


def gallery_html(service: ExplorerService, query: GalleryQuery, version: str) -> str:
    """Return a page of images."""
    chosen = np.ones(len(service.labels), bool)
    if query.label is not None:
        chosen &= service.labels == query.label
    if query.wrong:
        chosen &= ~service.correct
    indices = chosen.nonzero()[0].tolist()
    start = query.page * PER_PAGE

    def entry(index: int) -> tuple[int, str, str | None]:
        label, predicted = (service.class_name(int(of[index])) for of in (service.labels, service.predicted))
        return index, label, None if service.correct[index] else predicted

    entries = [entry(index) for index in indices[start : start + PER_PAGE]]
    more = start + PER_PAGE < len(indices)
    return page("gallery", entries=entries, count=len(indices), query=query, more=more, start=start, version=version)
