"""Saving: figures as files and into buffers, complete or not at all, with text that stays text."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from partswap.counterfactual import Counterfactual
from partswap.errors import SettingError

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
    try:
        if isinstance(where, str | Path):
            _write(Path(where), content)
        else:
            where.write(_for_file(content, where, kind))
            where.flush()
    except OSError as error:
        name = where if isinstance(where, str | Path) else getattr(where, "name", "into the open file")
        raise SettingError(
            f"the figure {name} cannot be written ({error.strerror or error}).",
            "Choose a place that can be written to and has room.",
        ) from error


def _for_file(content: bytes, file: IO[Any], kind: str) -> bytes | str:
    """Return what a file takes: bytes, or text if it was opened for text."""
    if not hasattr(file, "encoding"):
        return content
    if kind not in ("svg", "html"):
        raise SettingError(f"a {kind} cannot go into a file of text.", "Open it for bytes: mode 'wb', or BytesIO.")
    return content.decode()


def _rendered(figure: Figure, cf: Counterfactual, kind: str) -> bytes:
    if kind == "html":
        from partswap.pictures import page

        return page(cf).encode()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=max(DPI, figure.dpi))
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> None:
    """Write a file that is complete or not there at all; one that was there stays if the new one fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _names() -> str:
    return ", ".join(suffix[1:] for suffix in FORMATS)
