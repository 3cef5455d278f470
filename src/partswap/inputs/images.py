"""Images in: reading them, from whatever holds one."""

from __future__ import annotations

import io
import os
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError, features
from torch import Tensor
from torch.utils.data import DataLoader

from partswap.errors import ImageError, NoDistractorsError, SettingError, ShapeError
from partswap.utils.files import write_with

#: The formats of photographs and drawings, as Pillow calls them; its builds lack some, and plugins add others.
FORMATS = frozenset(
    ["AVIF", "BMP", "DIB", "GIF", "HEIF", "JPEG", "JPEG2000", "MPO", "PCX", "PNG", "PPM", "QOI", "TGA", "TIFF", "WEBP"]
)
#: Files that lie beside images and need no mention.
BESIDES = frozenset(
    [".csv", ".db", ".html", ".ini", ".json", ".md", ".py", ".toml", ".tsv", ".txt", ".xml", ".yaml", ".yml", ".zip"]
)
#: In `Image.info` of an image that was read: it is transparent in places, and was put on white.
ON_WHITE = "partswap: put on white"
#: Below this many pixels on a side there is nothing to see, let alone to swap.
SMALLEST = 8

#: A path, a PIL image, a ``(height, width[, 3])`` uint8 array, the bytes of a file, an open file, a preprocessed float
#: tensor or a uint8 one ``(3, height, width)``, an item of a data set.
ImageLike = Any


def read_image(source: ImageLike, *, upright: bool = True) -> Image.Image:
    """Return an RGB image from anything that `ImageLike` names but a preprocessed tensor.

    It is turned as the camera says, unless annotations are on the pixels as they are stored (``upright=False``).
    """
    source = image_of(source)
    if isinstance(source, Tensor):
        source = source[None] if source.ndim == 2 else source
        if source.dtype != torch.uint8 or source.ndim != 3 or source.shape[0] not in (1, 3, 4):
            raise ImageError(
                f"a tensor of shape {tuple(source.shape)} and type {source.dtype} is not an image.",
                "Pass (3, height, width) uint8, or floats that are already preprocessed.",
            )
        source = source.permute(1, 2, 0).cpu().numpy()
    if isinstance(source, np.ndarray):
        source = source[..., 0] if source.ndim == 3 and source.shape[2] == 1 else source
        if source.dtype != np.uint8 or not (source.ndim == 2 or (source.ndim == 3 and source.shape[2] in (3, 4))):
            raise ImageError(
                f"an array of shape {source.shape} and type {source.dtype} is not an image.",
                "Pass (height, width, 3) uint8, or a float tensor that is already preprocessed.",
            )
        if 0 in source.shape:
            raise ImageError(f"an array of shape {source.shape} has no pixels.", "Pass an image.")
        return _checked(Image.fromarray(source), "an array", upright)
    if isinstance(source, Image.Image):
        return _checked(source, getattr(source, "filename", "") or "an image", upright)
    name, opened = _opened(source)
    try:
        with Image.open(opened) as image:
            return _checked(image, name, upright)
    except FileNotFoundError as error:
        raise ImageError(f"there is no image {name}.", "Check the path.") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ImageError(f"{name} cannot be read as an image ({error}).", "Replace or remove the file.") from error


def is_prepared(source: ImageLike) -> bool:
    """Return whether an image is a float tensor, which goes into the model as it is."""
    inside = image_of(source)
    return isinstance(inside, Tensor) and inside.dtype != torch.uint8


def read_bands(source: ImageLike, channels: int) -> NDArray[np.uint8]:
    """Return an image of another number of channels than gray or colors have, as an array ``(height, width, n)``."""
    source = image_of(source)
    if isinstance(source, Tensor) and source.ndim == 3:
        source = source.permute(1, 2, 0).cpu().numpy()
    if not isinstance(source, np.ndarray | Image.Image):
        name, opened = _opened(source)
        try:
            with Image.open(opened) as image:
                source = np.asarray(image)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise ImageError(f"{name} cannot be read as an image ({error}).", "Pass an array.") from error
    pixels = np.asarray(source)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != channels or min(pixels.shape[:2]) < SMALLEST:
        raise ImageError(
            f"an image of shape {pixels.shape} and type {pixels.dtype} is passed to a model of {channels} channels.",
            f"Pass (height, width, {channels}) uint8, or a tensor ({channels}, height, width).",
        )
    return pixels


def image_of(source: Any) -> Any:
    """Return the image of an item of a data set, and anything else as it is.

    Items are ours, an image with its label as torchvision gives them, or ``{"image": ..., "label": ...}``.
    """
    if isinstance(getattr(source, "image", None), Image.Image):
        return source.image
    if isinstance(source, Mapping) and "image" in source and getattr(source["image"], "ndim", 0) != 4:
        return source["image"]
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], int | np.integer):
        return source[0]
    return source


def label_of(source: Any) -> int | None:
    """Return the label of an item of a data set, None of any other image."""
    if image_of(source) is source:
        return None
    if isinstance(source, Mapping):
        label = source.get("label")
    else:
        label = source[1] if isinstance(source, tuple) else getattr(source, "label", None)
    return int(label) if isinstance(label, int | np.integer) else None


def name_of(source: Any) -> str:
    """Return the absolute path of an image that is a file, the name of an item of a data set, or ``""``."""
    if isinstance(source, str | PathLike):
        return str(Path(os.fsdecode(source)).absolute())
    inside = image_of(source)
    if inside is not source:
        return name_of(inside) or str(getattr(source, "name", "") or "")
    filename = getattr(source, "filename", "") if isinstance(source, Image.Image) else ""
    return str(Path(filename).absolute()) if isinstance(filename, str) and filename else ""


def _opened(source: Any) -> tuple[str, Any]:
    """Return a name for messages, and what PIL can open."""
    if isinstance(source, bytes | bytearray | memoryview):
        return f"{len(source)} bytes", io.BytesIO(bytes(source))
    if hasattr(source, "read") and hasattr(source, "seek"):
        return str(getattr(source, "name", "a file")), source
    if isinstance(source, str) and source.partition("://")[0].lower() in ("http", "https"):
        raise ImageError(
            f"{source} is an address, and images are not fetched unless that is asked for.",
            "Use {fetch}, or save the image.",
        )
    if isinstance(source, str | PathLike):
        path = Path(os.fsdecode(source))
        if "\0" in str(path):
            raise ImageError(f"{str(path)!r} is not a path.", "Check it.")
        if path.is_dir():
            raise ImageError(f"{path} is a folder.", "Pass an image.")
        return str(path), path
    raise ImageError(
        f"a {type(source).__name__} is not an image.",
        "Pass a path, a PIL image, a uint8 array, the bytes of a file, or a preprocessed tensor.",
    )


def _checked(image: Image.Image, name: str, upright: bool) -> Image.Image:
    """Return an image in RGB; one too small to show anything is an error."""
    if min(image.size) < SMALLEST:
        raise ImageError(
            f"{name} has {image.width} x {image.height} pixels.", f"Use images of at least {SMALLEST} x {SMALLEST}."
        )
    # A phone stores how it was held beside the pixels.
    image = ImageOps.exif_transpose(image) if upright else image
    if image.has_transparency_data:
        colors = image.convert("RGBA")
        if np.asarray(colors)[..., 3].min() < 255:
            white = Image.new("RGBA", colors.size, "white")
            image = Image.alpha_composite(white, colors)
            image.info[ON_WHITE] = name
    return _eight_bits(image, name).convert("RGB")


def _eight_bits(image: Image.Image, name: str) -> Image.Image:
    """Return an image of more than 8 bits with 8; PIL by itself would cut them off at 255."""
    if image.mode not in ("I", "F") and not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image)
    # Values of 32 bits that never leave 0 to 255 may be a dark image of 16 bits or any image of 8.
    if image.mode == "F" or values.min() < 0 or values.max() > 65535 or (image.mode == "I" and values.max() <= 255):
        raise ImageError(
            f"{name} holds values from {values.min():g} to {values.max():g}, and what is black or white is unknown.",
            "Save it with 8 or 16 bits per channel.",
        )
    return Image.fromarray(np.round(values / 257).astype(np.uint8))


def fetch_image(address: str, *, limit_mb: float = 20, timeout: float = 20) -> Image.Image:
    """Return the image at an ``http`` or ``https`` address, of at most `limit_mb` megabytes."""
    if address.partition("://")[0].lower() not in ("http", "https"):
        raise ImageError(f"{address} is no address of the web.", "Use http:// or https://.")
    limit = int(limit_mb * 2**20)
    try:
        asked = urllib.request.Request(address, headers={"User-Agent": "partswap"})
        with urllib.request.urlopen(asked, timeout=timeout) as answer:
            data = answer.read(limit + 1)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise ImageError(f"{address} cannot be fetched ({error}).", "Check the address, or save the image.") from error
    if len(data) > limit:
        raise ImageError(f"{address} is larger than {limit_mb:g} MB.", "Save a smaller one and pass its path.")
    return read_image(data)


@cache
def image_suffixes() -> frozenset[str]:
    """Return the suffixes of the image files that can be read here."""
    suffixes = Image.registered_extensions()
    missing = {name for name in ("AVIF", "WEBP") if not features.check(name.lower())}
    return frozenset(s for s, kind in suffixes.items() if kind in FORMATS - missing and kind in Image.OPEN)


def find_images(places: Iterable[str | PathLike[str]]) -> list[Path]:
    """Return the image files among `places`, looking into folders, in a stable order."""
    files: list[Path] = []
    searched = [Path(place) for place in places]
    for place in searched:
        if place.is_dir():
            files.extend(sorted(p for p in place.rglob("*") if p.suffix.lower() in image_suffixes()))
        elif place.exists():
            files.append(place)
        else:
            raise ImageError(f"there is no image or folder {place}.", "Check the path.")
    if not files:
        unread = unread_text(searched)
        raise NoDistractorsError(
            f"no images in {', '.join(map(str, searched))}{f' ({unread})' if unread else ''}.",
            f"Folders are searched for {', '.join(sorted(image_suffixes()))}.",
        )
    return files


def unread_text(images: Any) -> str:
    """Return which files in folders are not read as images, in words; empty if there are none.

    `images` is what `list_images` takes. Hidden files and those that lie beside images, such as tables, do not count.
    """
    places = [images] if isinstance(images, str | PathLike) else images if isinstance(images, list | tuple) else []
    files = []
    for place in places:
        folder = Path(place) if isinstance(place, str | PathLike) else None
        if folder is not None and folder.is_dir():
            expected = image_suffixes() | BESIDES
            files += [p for p in folder.rglob("*") if p.suffix.lower() not in expected and p.is_file()]
    files = sorted(p for p in files if not p.name.startswith("."))
    if not files:
        return ""
    kinds = Counter(p.suffix.lower() or "without a suffix" for p in files).most_common()
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds)
    return f"{len(files)} {'files are' if len(files) > 1 else 'file is'} not read as images: {counts}, first {files[0]}"


def list_images(images: Any) -> list[ImageLike]:
    """Return images as a list: one image, those of a folder or a loader, of any iterable, in which folders may be."""
    single = isinstance(images, Image.Image | bytes | bytearray) or image_of(images) is not images
    single |= isinstance(images, np.ndarray | Tensor) and images.ndim < 4
    single |= hasattr(images, "read") and hasattr(images, "seek")
    if isinstance(images, str | PathLike):
        return list(find_images([images])) if Path(images).is_dir() else [images]
    if single:
        return [images]
    if isinstance(images, DataLoader):
        return [image for batch in images for image in list_images(batch)]
    if (batch := _batch_of(images)) is not None:
        return batch
    if not isinstance(images, Iterable) and hasattr(images, "__getitem__") and hasattr(images, "__len__"):
        images = [images[k] for k in range(len(images))]  # a data set of torch need not be iterable
    if not isinstance(images, Iterable):
        raise ShapeError(f"a {type(images).__name__} is no image.", "Pass an image, a list of images, or a folder.")
    listed: list[ImageLike] = []
    for image in images:
        folder = isinstance(image, str | PathLike) and Path(image).is_dir()
        several = isinstance(image, Tensor | np.ndarray) and image.ndim == 4
        listed.extend(find_images([image]) if folder else image if several else [image])
    return listed


def _batch_of(batch: Any) -> list[ImageLike] | None:
    """Return the images of a batch with their labels as loaders give them, None if it is none."""
    if isinstance(batch, Mapping):
        names = [name for name in ("image", "pixel_values") if name in batch]
        images, labels = (batch[names[0]] if names else None), batch.get("label", batch.get("labels"))
    else:
        images, labels = batch if isinstance(batch, list | tuple) and len(batch) == 2 else (None, None)
    if not isinstance(images, Tensor) or images.ndim != 4:
        return None
    if not isinstance(labels, Tensor) or labels.shape != images.shape[:1] or labels.is_floating_point():
        return None if not isinstance(batch, Mapping) else list(images)
    return [(image, int(label)) for image, label in zip(images, labels, strict=True)]


def save_image(image: Image.Image, path: Path, **how: Any) -> None:
    """Write an image in the format of the name's suffix, whole or not at all; see `partswap.utils.files.writing`."""
    kind = check_picture(path)
    write_with(path, lambda file: image.save(file, kind), **how)


def check_picture(path: Path) -> str:
    """Return the format of the name's suffix; one that pictures are not written in is an error."""
    kind = Image.registered_extensions().get(path.suffix.lower(), "")
    if kind not in Image.SAVE:
        raise SettingError(f"{path} has no suffix of an image.", "Use .png or .jpg.")
    return kind
