"""Images in: reading them, and turning them into what a model wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from partswap.errors import ImageError, NoDistractorsError, ShapeError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}

ImageLike = str | Path | Image.Image | np.ndarray | Tensor


def read_image(source: str | Path | Image.Image | np.ndarray) -> Image.Image:
    """Return an RGB image from a path, a PIL image or a ``(height, width[, 3])`` uint8 array."""
    if isinstance(source, Image.Image):
        return source.convert("RGB")
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or not (source.ndim == 2 or (source.ndim == 3 and source.shape[2] in (3, 4))):
            raise ImageError(
                f"an array of shape {source.shape} and type {source.dtype} is not an image.",
                "Pass (height, width, 3) uint8, or a float tensor that is already preprocessed.",
            )
        return Image.fromarray(source).convert("RGB")
    path = Path(source)
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except FileNotFoundError as error:
        raise ImageError(f"there is no image {path}.", "Check the path.") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ImageError(f"{path} cannot be read as an image ({error}).", "Replace or remove the file.") from error


def find_images(places: Sequence[Path]) -> list[Path]:
    """Return the image files among `places`, looking into folders, in a stable order."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            found.extend(sorted(p for p in place.rglob("*") if p.suffix.lower() in SUFFIXES))
        elif place.exists():
            found.append(place)
        else:
            raise ImageError(f"there is no image or folder {place}.", "Check the path.")
    if not found:
        raise NoDistractorsError(
            f"no images in {', '.join(map(str, places))}.",
            f"Folders are searched for {', '.join(sorted(SUFFIXES))}.",
        )
    return found


@dataclass(frozen=True)
class Preprocess:
    """Resize the short side, crop the centre, standardise: what most classifiers were trained with.

    Parameters
    ----------
    size : int
        Side of the square the model gets.
    resize : int, optional
        Short side before the crop; the same as `size` by default.
    mean, std : tuple of float
        Per channel, on a scale of 0 to 1.
    """

    size: int = 224
    resize: int | None = None
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def key(self) -> str:
        """Return what caches are kept under: the fields that are not the default.

        A new field with a default then changes no key. A default must never change: old caches would count as new.
        """
        changed = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return f"Preprocess({', '.join(changed)})"

    def geometry(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return how an image of ``(width, height)`` is resized and where it is cropped: width, height, left, top."""
        short = self.resize or self.size
        scale = short / min(size)
        width, height = (max(round(side * scale), self.size) for side in size)
        return width, height, (width - self.size) // 2, (height - self.size) // 2

    def canvas(self, image: Image.Image) -> Image.Image:
        """Return the part of the image the model sees, ``size x size``: the grid lies on this."""
        width, height, left, top = self.geometry(image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
        return image.crop((left, top, left + self.size, top + self.size))

    def tensor(self, canvas: Image.Image) -> Tensor:
        """Return a canvas as a standardised ``(3, size, size)`` tensor."""
        pixels = torch.from_numpy(np.array(canvas.convert("RGB"))).permute(2, 0, 1).float().div(255)
        return (pixels - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]

    def picture(self, tensor: Tensor) -> Image.Image:
        """Undo `tensor`, to draw an image that came already preprocessed."""
        pixels = tensor.cpu() * torch.tensor(self.std)[:, None, None] + torch.tensor(self.mean)[:, None, None]
        array = pixels.clamp(0, 1).mul(255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        return Image.fromarray(array)

    def __call__(self, source: ImageLike) -> tuple[Tensor, Image.Image]:
        """Return the model's input ``(3, size, size)`` and the picture of it."""
        if isinstance(source, Tensor):
            if source.ndim != 3 or source.shape[0] != 3 or not source.is_floating_point():
                raise ShapeError(
                    f"an image tensor has shape {tuple(source.shape)} and type {source.dtype}.",
                    "Pass (3, height, width) floats, standardised; or an image, and it is done for you.",
                )
            if not bool(torch.isfinite(source).all()):
                raise ImageError("an image tensor holds NaN or infinite values.", "Check how it was standardised.")
            return source.float(), self.picture(source)
        canvas = self.canvas(read_image(source))
        return self.tensor(canvas), canvas
