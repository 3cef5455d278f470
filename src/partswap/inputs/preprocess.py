"""Images as a model wants them: resized, cropped and standardised as a declared preprocessing says."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from partswap.errors import ImageError, SettingError, ShapeError
from partswap.inputs.images import ImageLike, image_of, is_prepared, read_bands, read_image

#: No image may become larger than this on its way to the model, in pixels; a strip of 60,000 x 8 would.
LARGEST = 100_000_000
#: From here on up a value is of pixels of 0 to 255, as a multiple of the lightest value that a preprocessing makes.
BEYOND = 4
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]
#: What floats in image tensors are: pixels of 0 to 1, or standardised; one is told from the other where that is sure.
Tensors = Literal["unknown", "unit", "standardised"]
#: ``(left, top, right, bottom)`` in pixels of an image.
Box = tuple[float, float, float, float]


def stacked(inputs: Sequence[Tensor]) -> Tensor:
    """Return inputs of a model as one batch; none at all, or several sizes, are an error."""
    shapes = {tuple(x.shape) for x in inputs}
    if len(shapes) != 1:
        raise ShapeError(f"images of different shapes {sorted(shapes)}.", "Preprocess them to one size.")
    return torch.stack(list(inputs))


@dataclass(frozen=True)
class Preprocess:
    """Resize, crop the center, standardise: what most classifiers were trained with.

    Parameters
    ----------
    size : int or tuple of int
        What the model gets: the side of a square, or height and width.
    resize : int, optional
        Short side before the crop; that of `size` by default.
    mean, std : tuple of float
        Per channel, on a scale of 0 to 1: three of them for colors, one for gray, or as many as the model takes.
    interpolation : str
        How pixels are resized.
    fit : {"crop", "squash"}
        Whether the sides keep their proportions, so that the crop leaves something out, or not.
    shown : tuple of int
        Of more than three channels, those that pictures show as red, green and blue.
    tensors : {"unknown", "unit", "standardised"}
        What float tensors hold that are passed as images: pixels of 0 to 1, or what the model gets.
    assumed : str
        Where it comes from if nobody said it; empty if the model or a user did.
    """

    size: int | tuple[int, int] = 224
    resize: int | None = None
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    interpolation: Interpolation = "bilinear"
    fit: Literal["crop", "squash"] = "crop"
    shown: tuple[int, int, int] = field(default=(0, 1, 2), kw_only=True, compare=False)
    tensors: Tensors = field(default="unknown", kw_only=True, compare=False)
    assumed: str = field(default="", kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.size, list | tuple):
            object.__setattr__(self, "size", self.size[0] if len({*self.size}) == 1 else tuple(self.size))
        for name in ("mean", "std"):
            value = getattr(self, name)
            if not isinstance(value, list | tuple) or not value or not all(map(is_number, value)):
                raise SettingError(f"{name} is {value!r}.", "Give one number per channel: three for colors.")
            object.__setattr__(self, name, tuple(float(v) for v in value))
        pair = isinstance(self.size, tuple)
        sides = self.size if isinstance(self.size, tuple) else (self.size, self.size)
        rules: dict[str, tuple[bool, str]] = {
            "size": (len(sides) == 2 and all(map(_is_side, sides)), "Give a number of pixels, or (height, width)."),
            "resize": (
                self.resize is None or (_is_side(self.resize) and (pair or self.resize >= sides[0])),
                "Give a number of pixels that is not below the size, or leave it out.",
            ),
            "mean": (len(self.mean) == len(self.std), f"Give as many numbers as there are in std: {len(self.std)}."),
            "std": (all(v > 0 for v in self.std), "Use numbers above 0."),
            "interpolation": (self.interpolation in get_args(Interpolation), f"Use one of {get_args(Interpolation)}."),
            "fit": (self.fit in ("crop", "squash"), "Use 'crop' or 'squash'."),
            "tensors": (self.tensors in get_args(Tensors), "Use 'unit' or 'standardised'."),
            "shown": (
                len(self.shown) == 3 and (self.channels < 3 or all(k in range(self.channels) for k in self.shown)),
                f"Give three channels, each from 0 to {self.channels - 1}.",
            ),
        }
        for name, (fine, fix) in rules.items():
            if not fine:
                raise SettingError(f"{name} is {getattr(self, name)!r}.", fix)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of what the model gets."""
        return self.size if isinstance(self.size, tuple) else (self.size, self.size)

    @property
    def channels(self) -> int:
        """How many channels the model's images have."""
        return len(self.mean)

    @property
    def pictured(self) -> bool:
        """Whether a picture, gray or in colors, holds all that the model sees."""
        return self.channels in (1, 3)

    def described(self) -> str:
        """Return it in words."""
        high, wide = self.shape
        numbers = (" ".join(f"{v:g}" for v in values) for values in (self.mean, self.std))
        squashed = ", squashed" if self.fit == "squash" else ""
        resized = f"short side {self.resize}, center " if self.resize and not squashed else ""
        return f"{resized}{wide} x {high}{squashed}, mean {next(numbers)}, std {next(numbers)}"

    def probe(self) -> Tensor:
        """Return two images of noise of the shape that the model gets, ``(2, channels, height, width)``."""
        return torch.randn(2, self.channels, *self.shape, generator=torch.Generator().manual_seed(0))

    @property
    def side(self) -> int:
        """Side of the square the model gets; an oblong is an error."""
        if isinstance(self.size, tuple):
            raise SettingError(f"size is {self.size}.", "This works with square images only.")
        return self.size

    def key(self) -> str:
        """Return what caches are kept under: the fields that are not the default.

        A new field with a default then changes no key. A default must never change: old caches would count as new.
        """
        values = ((f, getattr(self, f.name)) for f in fields(self) if f.compare)
        changed = (f"{f.name}={value!r}" for f, value in values if value != f.default)
        return f"Preprocess({', '.join(changed)})"

    def record(self) -> dict[str, Any]:
        """Return it as plain values, for files."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.compare}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @staticmethod
    def of_record(record: Any) -> Preprocess:
        """Return what `record` wrote; one that was a function is an error."""
        if "function" in record:
            raise SettingError(
                f"its images were prepared by {record['function']}, which a file cannot hold.",
                "Set it as the model's attribute preprocess, or pass the explainer: Explainer(...).verify(cf).",
            )
        return Preprocess(**record)

    def declared(self) -> Preprocess:
        """Return it without a user's function."""
        return self

    def geometry(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return how an image of ``(width, height)`` is resized and where it is cropped: width, height, left, top."""
        high, wide = self.shape
        short_side = min(high, wide)
        needed = self.resize or short_side
        scales = needed * wide / short_side / size[0], needed * high / short_side / size[1]
        if self.fit == "crop":
            scales = (max(scales), max(scales))
        width, height = max(round(size[0] * scales[0]), wide), max(round(size[1] * scales[1]), high)
        return width, height, (width - wide) // 2, (height - high) // 2

    def box(self, size: tuple[int, int]) -> Box:
        """Return which part of an image of ``(width, height)`` the model sees."""
        (high, wide), (width, height, left, top) = self.shape, self.geometry(size)
        across, down = size[0] / width, size[1] / height
        return left * across, top * down, (left + wide) * across, (top + high) * down

    def crop(self, image: Image.Image) -> Image.Image:
        """Return the picture: the part of the image the model sees, of size `shape`. The grid lies on this."""
        width, height, left, top = self.geometry(image.size)
        if width * height > LARGEST:
            raise ImageError(
                f"an image of {image.width} x {image.height} pixels would become {width} x {height}.",
                "Crop it: it is a strip, and the model sees only a square of it.",
            )
        image = image.resize((width, height), Image.Resampling[self.interpolation.upper()])
        return image.crop((left, top, left + self.shape[1], top + self.shape[0]))

    def canvas(self, image: Image.Image) -> Image.Image:
        """Return what `crop` returns; the name of earlier versions."""
        warnings.warn("Preprocess.canvas is called Preprocess.crop now.", DeprecationWarning, stacklevel=2)
        return self.crop(image)

    def tensor(self, picture: Image.Image) -> Tensor:
        """Return a picture, as `crop` makes it, as a standardised ``(channels, height, width)`` tensor."""
        if not self.pictured:
            raise SettingError(
                f"the model takes images of {self.channels} channels, and a picture shows three.",
                "Pass the images themselves: arrays (height, width, channels) or tensors.",
            )
        pixels = np.atleast_3d(np.array(picture.convert("L" if self.channels == 1 else "RGB")))
        return self._standardised(torch.from_numpy(pixels).permute(2, 0, 1).float().div(255))

    def picture(self, tensor: Tensor) -> Image.Image:
        """Undo `tensor`, to draw an image that came already preprocessed; RGB, gray or the channels to show."""
        pixels = tensor.cpu().float() * column(self.std) + column(self.mean)
        pixels = pixels[list(self.shown) if self.channels >= 3 else [0, 0, 0]]
        array = pixels.clamp(0, 1).mul(255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        return Image.fromarray(array)

    def read(self, source: ImageLike) -> Image.Image | NDArray[np.uint8]:
        """Return an image as an RGB picture, or as an array ``(height, width, channels)`` where that is not enough."""
        return read_image(source) if self.pictured else read_bands(source, self.channels)

    def __call__(self, source: ImageLike) -> tuple[Tensor, Image.Image]:
        """Return the model's input ``(channels, height, width)`` and the picture of it."""
        if is_prepared(source):
            values = self._values(image_of(source))
            return values, self.picture(values)
        return self._prepared(self.read(source))

    def _prepared(self, image: Image.Image | NDArray[np.uint8]) -> tuple[Tensor, Image.Image]:
        if isinstance(image, Image.Image):
            picture = self.crop(image)
            return self.tensor(picture), picture if self.channels == 3 else picture.convert("L").convert("RGB")
        bands = [np.asarray(self.crop(Image.fromarray(band))) for band in np.moveaxis(image, 2, 0)]
        values = self._standardised(torch.from_numpy(np.stack(bands)).float().div(255))
        return values, self.picture(values)

    def _standardised(self, pixels: Tensor) -> Tensor:
        """Return pixels of 0 to 1, ``(channels, height, width)``, as the model wants them."""
        return (pixels - column(self.mean)) / column(self.std)

    def _values(self, tensor: Tensor) -> Tensor:
        """Return what the model gets of a float tensor; an error says what to say where that is not sure."""
        floats = tensor.is_floating_point()
        if tensor.ndim != 3 or tensor.shape[0] != self.channels or not floats or 0 in tensor.shape:
            raise ShapeError(
                f"an image tensor has shape {tuple(tensor.shape)} and type {tensor.dtype}.",
                f"Pass ({self.channels}, height, width) floats, standardised; or an image, and it is done for you.",
            )
        if not bool(torch.isfinite(tensor).all()):
            raise ImageError("an image tensor holds NaN or infinite values.", "Check how it was standardised.")
        low, high = float(tensor.min()), float(tensor.max())
        lightest = max((1 - m) / s for m, s in zip(self.mean, self.std, strict=True))
        if self.tensors != "standardised" and low >= 0 and max(1, lightest) * BEYOND < high <= 255:
            raise ImageError(
                f"an image tensor holds values from {low:g} to {high:g}: pixels of 0 to 255, not standardised.",
                "Pass it as uint8 (image.to(torch.uint8)), and it is resized and standardised for you.",
            )
        inside = low >= 0 and high <= 1
        if self.tensors == "unit":
            if not inside:
                raise ImageError(
                    f'an image tensor holds values from {low:g} to {high:g}, and tensors is "unit".',
                    'Pass pixels of 0 to 1, or say tensors="standardised".',
                )
            return self._standardised(tensor.cpu().float())
        identity = not any(self.mean) and set(self.std) == {1.0}
        if self.tensors == "unknown" and inside and not identity:
            raise ImageError(
                f"an image tensor holds values from {low:g} to {high:g}: it may be pixels (as of ToTensor) that are "
                "still to be standardised, or standardised already.",
                'Say which to Explainer: tensors="unit" or tensors="standardised"; or pass the images themselves.',
            )
        return tensor.float()


def column(values: tuple[float, ...]) -> Tensor:
    """Return one value per channel as ``(channels, 1, 1)``."""
    return torch.tensor(values)[:, None, None]


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _is_side(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 16384
