"""The state of the page, and how it is written as the query of an address, so that it can be shared and reopened."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from partswap.errors import SettingError
from partswap.search import METHODS
from partswap.search.settings import SearchSettings

#: Where the slider of edits ends: there, and beyond, the number of edits is not limited.
UNLIMITED = 16
#: Distractors and lists of edits, at most.
MOST_DISTRACTORS, MOST_BEAM = 20, 16
#: Swaps by hand, at most.
MOST_SWAPS = 64
UPLOAD = re.compile(r"^[0-9a-f]{24}$")
_SWAPS = re.compile(r"^(\d{1,6}\.\d{1,7}(-\d{1,6}\.\d{1,7})*)?$")

#: Pairs ``(query cell, distractor cell)``, in the order in which they were made.
Swaps = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class View:
    """One state of the page."""

    image: int | None = None  #: of the data set
    upload: str | None = None  #: the digest of an image that was dropped
    target: int | None = None
    method: str = "partswap"
    lam: float = SearchSettings.lam
    tau: float | None = None  #: None: "auto"
    distractors: int = MOST_DISTRACTORS
    edits: int | None = None  #: None: not limited
    beam: int = SearchSettings.beam
    swaps: Swaps | None = None  #: made by hand; None: those of the search
    compare: bool = False

    @property
    def key(self) -> str:
        """The image in addresses of pictures and keys of caches."""
        return self.upload or str(self.image)

    def with_(self, **changes: Any) -> View:
        """Return the same view with some things changed."""
        return replace(self, **changes)

    def query(self) -> str:
        """Return the state as the query of an address; defaults are left out."""
        values = {each: getattr(self, each.field) for each in PARAMETERS}
        return urlencode({each.name: each.write(v) for each, v in values.items() if v != getattr(View, each.field)})


class Parameter(NamedTuple):
    """A parameter of the address: the field of a `View` that it sets, and how its text is read and written."""

    name: str
    field: str
    read: Callable[[str, str], Any]  #: from name and text; raises a `SettingError`
    write: Callable[[Any], str] = str


def read_view(given: Mapping[str, str]) -> View:
    """Return the view that an address describes; anything else raises an error that says which part is wrong."""
    texts = {each: given.get(each.name, "") for each in PARAMETERS}
    values = {each.field: each.read(each.name, text) for each, text in texts.items() if text}
    if given.get("s") == "":  # swaps by hand, and none yet; elsewhere an empty text means the default
        values["swaps"] = ()
    if values.get("upload"):
        values["image"] = None
    if (values.get("edits") or 0) >= UNLIMITED:
        values["edits"] = None
    return View(**values)


def _read_whole(name: str, text: str, *, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most):
        raise SettingError(f"{name} is {text[:40]!r}.", f"Use a whole number from {least} to {most}.")
    return int(text)


def _read_number(name: str, text: str, *, most: float) -> float:
    try:
        value = float(text[:40])
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise SettingError(f"{name} is {text[:40]!r}.", f"Use a number from 0 to {most}.")
    return value


def _read_tau(name: str, text: str) -> float | None:
    return _read_number(name, text, most=10) or None


def _read_upload(_: str, text: str) -> str:
    if not UPLOAD.match(text):
        raise SettingError("the dropped image has no such name.", "Drop it again.")
    return text


def _read_method(_: str, text: str) -> str:
    METHODS.get(text)
    return text


def _read_swaps(_: str, text: str) -> Swaps:
    if not _SWAPS.match(text[:2000]) or text.count(".") > MOST_SWAPS:
        raise SettingError("the swaps in the address cannot be read.", "Write cell.cell, joined by '-'.")
    pairs = [part.split(".") for part in text.split("-") if part]
    return tuple((int(i), int(j)) for i, j in pairs)


def write_swaps(swaps: Swaps) -> str:
    """Return swaps as they stand in an address."""
    return "-".join(f"{i}.{j}" for i, j in swaps)


PARAMETERS = (
    Parameter("i", "image", partial(_read_whole, least=0, most=10**7)),
    Parameter("u", "upload", _read_upload),
    Parameter("t", "target", partial(_read_whole, least=0, most=10**6)),
    Parameter("m", "method", _read_method),
    Parameter("lam", "lam", partial(_read_number, most=5), "{:g}".format),
    Parameter("tau", "tau", _read_tau, "{:g}".format),
    Parameter("n", "distractors", partial(_read_whole, least=1, most=MOST_DISTRACTORS)),
    Parameter("edits", "edits", partial(_read_whole, least=1, most=UNLIMITED)),
    Parameter("beam", "beam", partial(_read_whole, least=1, most=MOST_BEAM)),
    Parameter("s", "swaps", _read_swaps, write_swaps),
    Parameter("compare", "compare", lambda _, text: text == "1", lambda _: "1"),
)
