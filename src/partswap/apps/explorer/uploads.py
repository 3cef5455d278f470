"""Images that people drop: checked before they are decoded, and stored in a folder that goes away with the server."""

from __future__ import annotations

import hashlib
import io
import tempfile
import threading
import warnings
from pathlib import Path

from cachetools import LRUCache
from PIL import Image, UnidentifiedImageError

from partswap.errors import ImageError
from partswap.inputs.images import read_image

#: Bytes and pixels of a dropped image, and how many images are stored.
LARGEST_BYTES, LARGEST_PIXELS, STORED = 12 * 2**20, 40_000_000, 24
#: Formats whose readers are simple; vector graphics and documents are none.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
#: Images with a longer side are reduced to it: a model sees less, and they take less memory.
SIDE = 1600


class Uploads:
    """Dropped images by digest; of more than `STORED`, the least recently used ones are removed."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="partswap-explore-")
        self.folder = Path(self._home.name)
        self._paths: LRUCache[str, Path] = LRUCache(STORED)
        self._lock = threading.Lock()

    def add(self, data: bytes) -> str:
        """Store an image and return its digest; what is no image, or too large once unpacked, is refused."""
        image = checked(data)
        name = hashlib.blake2b(image.tobytes() + repr(image.size).encode(), digest_size=12).hexdigest()
        path = self.folder / f"{name}.png"  # a digest: no name of anybody's is a path here
        with self._lock:
            if name not in self._paths:
                image.save(path, compress_level=1)
                if len(self._paths) == STORED:
                    self._paths.popitem()[1].unlink(missing_ok=True)
            self._paths[name] = path
        return name

    def open(self, name: str) -> Image.Image:
        """Return an image that was dropped."""
        with self._lock:
            path = self._paths.get(name)
        if path is None:
            raise ImageError("the dropped image is not here any more.", "Drop it again.")
        return read_image(path)

    def close(self) -> None:
        """Remove the folder."""
        self._home.cleanup()


def checked(data: bytes) -> Image.Image:
    """Return the RGB image of a file's bytes after looking at its size in bytes, then in pixels, then its content."""
    if len(data) > LARGEST_BYTES:
        raise ImageError(
            f"the image has {len(data) / 2**20:.1f} MB.", f"Use one of at most {LARGEST_BYTES // 2**20} MB."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit raises instead
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
                size = opened.size
                if size[0] * size[1] <= LARGEST_PIXELS:
                    # Of a photograph a smaller version is decoded at once.
                    opened.draft("RGB", (SIDE, SIDE))
                    image = read_image(opened)
                    image.thumbnail((SIDE, SIDE))
                    return image
    except Image.DecompressionBombError as error:
        raise ImageError("the image has far too many pixels.", "Make it smaller.") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(
            "this file cannot be read as an image.", f"Use one of {', '.join(FORMATS)}, complete and undamaged."
        ) from error
    raise ImageError(
        f"the image has {size[0]} x {size[1]} pixels, which is more than fits.",
        f"Use one of at most {LARGEST_PIXELS // 10**6} million pixels.",
    )
