"""Thumbnails of what the model sees, each image once."""

from __future__ import annotations

import base64
import io
from collections.abc import Hashable
from dataclasses import dataclass, field

from PIL import Image

#: Longest side in pixels: a picture is shown at about three quarters of it, so that it stays crisp on fine screens.
SIDE = 224
QUALITY = 82


@dataclass
class Thumbnails:
    """Pictures as JPEG, in the order they were added; a key is added once."""

    files: list[bytes] = field(default_factory=list, repr=False)
    sizes: list[tuple[int, int]] = field(default_factory=list, repr=False)
    _numbers: dict[Hashable, int] = field(default_factory=dict, repr=False)

    def find(self, key: Hashable) -> int | None:
        """Return the number of a picture, None if it is not there."""
        return self._numbers.get(key)

    def add(self, key: Hashable, image: Image.Image) -> int:
        """Return the number of a picture, which is added unless its key is there."""
        if key not in self._numbers:
            data, size = thumbnail(image)
            self.files.append(data)
            self.sizes.append(size)
            self._numbers[key] = len(self.files) - 1
        return self._numbers[key]

    def __len__(self) -> int:
        return len(self.files)

    def encoded(self) -> list[str]:
        """Return all of them in base64."""
        return [base64.b64encode(data).decode() for data in self.files]


def thumbnail(image: Image.Image) -> tuple[bytes, tuple[int, int]]:
    """Return a picture as JPEG, and its size."""
    small = image.convert("RGB")
    if max(small.size) > SIDE:
        small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue(), small.size
