"""Saving: figures as files and into buffers, complete or not at all, with text that stays text."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from partswap.errors import SettingError
from partswap.results.counterfactual import Counterfactual
from partswap.utils.files import write_bytes, write_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Suffixes that a figure can be written with.
FORMATS = (".png", ".svg", ".pdf", ".jpg", ".html")
#: Dots per inch of files of pixels, at least; figures for print have more.
DPI = 150

#: A path, or a file that is open for writing.
Destination = str | Path | IO[Any]


def check_format(path: str | Path) -> Path:
    """Return where to draw, after checking that the suffix says a format; done before a long search."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise SettingError(f"{path} has no suffix of a figure.", f"Use one of {_names()}.")
    return path


def format_of(where: Destination, wanted: str | None) -> str:
    """Return the format of a file without its dot: what is wanted, what its name says, for a buffer else png."""
    if wanted is not None:
        if f".{str(wanted).lower()}" not in FORMATS:
            raise SettingError(f"format is {wanted!r}.", f"Use one of {_names()}.")
        return str(wanted).lower()
    if isinstance(where, str | Path):
        return check_format(where).suffix.lower()[1:]
    suffix = Path(str(getattr(where, "name", ""))).suffix.lower()
    return suffix[1:] if suffix in FORMATS else "png"


def save(figure: Figure, cf: Counterfactual, where: Destination, kind: str) -> None:
    """Write a figure in a format; html is a page with the counterfactual's card."""
    content = _rendered(figure, cf, kind)
    if isinstance(where, str | Path):
        write_bytes(Path(where), content)
        return
    with write_errors(getattr(where, "name", "the open file")):
        where.write(_for_file(content, where, kind))
        where.flush()


def _for_file(content: bytes, file: IO[Any], kind: str) -> bytes | str:
    """Return what a file takes: bytes, or text if it was opened for text."""
    if not hasattr(file, "encoding"):
        return content
    if kind not in ("svg", "html"):
        raise SettingError(f"a {kind} cannot go into a file of text.", "Open it for bytes: mode 'wb', or BytesIO.")
    return content.decode()


def _rendered(figure: Figure, cf: Counterfactual, kind: str) -> bytes:
    if kind == "html":
        from partswap.drawing.html import page

        return page(cf).encode()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=max(DPI, figure.dpi))
    return buffer.getvalue()


def _names() -> str:
    return ", ".join(suffix[1:] for suffix in FORMATS)
