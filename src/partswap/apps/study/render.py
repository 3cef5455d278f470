"""The pictures of a study: as the classifier sees them, sharp or blurred but for one region, and all alike outside.

Names are random, files of a kind have one size, and nothing of the original file (names, dates, camera) is left.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from partswap.apps.study.folder import Box, image_path
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.utils.files import make_private, write_bytes, write_errors

#: Long side of the pictures, in pixels.
SIDE = 480
QUALITY = 88


def view(image: Image.Image, preprocess: Preprocess) -> Image.Image:
    """Return what the classifier sees of an image, as large as the image allows."""
    high, wide = preprocess.shape
    scale = SIDE / max(high, wide)
    size = (round(wide * scale), round(high * scale))
    seen = image.convert("RGB").resize(size, Image.Resampling.LANCZOS, box=preprocess.box(image.size))
    return Image.frombytes("RGB", seen.size, seen.tobytes())  # nothing but pixels


def box_of(cell: int, grid: GridShape) -> Box:
    """Return where a cell lies."""
    left, top, right, bottom = grid.box(cell, (1, 1))
    return left, top, right, bottom


class ImageStore:
    """Writes pictures under random names; `close` makes all files equally long."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for place in (folder, folder / "images"):
            with write_errors(place, place="out"):
                make_private(place, folder=True)
        for leftover in (folder / "images").glob("?" * 32 + ".jpg"):  # of a plan that was killed
            leftover.unlink()
        self._kinds: dict[str, list[str]] = {}

    def add(self, picture: Image.Image, kind: str) -> str:
        """Write a picture and return its name; `kind` says which others it must look like from outside."""
        name = os.urandom(16).hex()
        encoded = io.BytesIO()
        picture.save(encoded, "JPEG", quality=QUALITY, optimize=True)
        write_bytes(image_path(self.folder, name), encoded.getvalue(), place="out")
        self._kinds.setdefault(kind, []).append(name)
        return name

    def close(self) -> None:
        """Fill all files of a kind up to the longest: a length would tell one class from another."""
        for names in self._kinds.values():
            paths = [image_path(self.folder, name) for name in names]
            longest = max(path.stat().st_size for path in paths)
            for path in paths:
                with write_errors(path, place="out"), path.open("ab") as file:
                    file.write(bytes(longest - path.stat().st_size))  # readers stop at the picture's end
        _same_date(image_path(self.folder, name) for names in self._kinds.values() for name in names)


def _same_date(paths: Iterable[Path]) -> None:
    for path in paths:
        os.utime(path, (0, 0))
