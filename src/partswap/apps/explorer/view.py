"""What the address says: the whole state of the page, so that it can be shared and opened again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from partswap.errors import SettingError
from partswap.search import METHODS

#: Where the slider of edits ends: there, and beyond, the search goes on until the decision flips.
UNLIMITED = 16
#: Distractors and lists of edits, at most.
MOST_DISTRACTORS, MOST_BEAM = 20, 16
#: Swaps by hand, at most.
MOST_SWAPS = 64
UPLOAD = re.compile(r"^[0-9a-f]{24}$")
_SWAPS = re.compile(r"^(\d{1,6}\.\d{1,7}(-\d{1,6}\.\d{1,7})*)?$")


@dataclass(frozen=True)
class View:
    """One state of the page."""

    image: int | None = None  #: of the data set
    upload: str | None = None  #: the digest of an image that was dropped
    target: int | None = None
    method: str = "partswap"
    lam: float = 0.4
    tau: float | None = None  #: None: what suits the auxiliary
    distractors: int = MOST_DISTRACTORS
    edits: int | None = None  #: None: as many as it takes
    beam: int = 8
    swaps: tuple[tuple[int, int], ...] | None = None  #: one's own; None: those that are found
    compare: bool = False

    @property
    def key(self) -> str:
        """Which image it is, as pictures and caches know it."""
        return self.upload or str(self.image)

    def with_(self, **changes: Any) -> View:
        """Return the same view with some things changed."""
        return replace(self, **changes)

    def query(self) -> str:
        """Return the state as the query of an address; what is as usual is left out."""
        usual, told = View(), {}
        if self.image is not None:
            told["i"] = str(self.image)
        if self.upload is not None:
            told["u"] = self.upload
        if self.target is not None:
            told["t"] = str(self.target)
        if self.method != usual.method:
            told["m"] = self.method
        if self.lam != usual.lam:
            told["lam"] = f"{self.lam:g}"
        if self.tau is not None:
            told["tau"] = f"{self.tau:g}"
        if self.distractors != usual.distractors:
            told["n"] = str(self.distractors)
        if self.edits is not None:
            told["edits"] = str(self.edits)
        if self.beam != usual.beam:
            told["beam"] = str(self.beam)
        if self.swaps is not None:
            told["s"] = "-".join(f"{i}.{j}" for i, j in self.swaps)
        if self.compare:
            told["compare"] = "1"
        return urlencode(told)


def read_view(given: Mapping[str, str]) -> View:
    """Return the view that an address describes; anything else raises an error that says which part is wrong."""
    upload = given.get("u") or None
    if upload is not None and not UPLOAD.match(upload):
        raise SettingError("the dropped image has no such name.", "Drop it again.")
    method = given.get("m") or "partswap"
    METHODS.get(method)
    edits = _whole(given, "edits", 1, UNLIMITED)
    return View(
        image=None if upload else _whole(given, "i", 0, 10**7),
        upload=upload,
        target=_whole(given, "t", 0, 10**6),
        method=method,
        lam=_number(given, "lam", 0.4, 0, 5),
        tau=_number(given, "tau", 0.0, 0, 10) or None,
        distractors=_whole(given, "n", 1, MOST_DISTRACTORS) or MOST_DISTRACTORS,
        edits=None if edits is None or edits >= UNLIMITED else edits,
        beam=_whole(given, "beam", 1, MOST_BEAM) or 8,
        swaps=_swaps(given.get("s")),
        compare=given.get("compare") == "1",
    )


def _whole(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most):
        raise SettingError(f"{name} is {text[:40]!r}.", f"Use a whole number from {least} to {most}.")
    return int(text)


def _number(given: Mapping[str, str], name: str, usual: float, least: float, most: float) -> float:
    text = given.get(name, "")
    if not text:
        return usual
    try:
        value = float(text[:40])
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise SettingError(f"{name} is {text[:40]!r}.", f"Use a number from {least} to {most}.")
    return value


def _swaps(text: str | None) -> tuple[tuple[int, int], ...] | None:
    if text is None:
        return None
    if not _SWAPS.match(text[:2000]) or text.count(".") > MOST_SWAPS:
        raise SettingError("the swaps in the address cannot be read.", "Write cell.cell, joined by '-'.")
    pairs = [part.split(".") for part in text.split("-") if part]
    return tuple((int(i), int(j)) for i, j in pairs)
