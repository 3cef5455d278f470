"""Images as a model wants them: a declared preprocessing, or any function of a user's, followed exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from partswap.errors import ImageError, SettingError, ShapeError
from partswap.images import ImageLike, image_of, read_image

#: No image may become larger than this on its way to the model, in pixels; a strip of 60,000 x 8 would.
LARGEST = 100_000_000
#: How often a function is tried on one image before it counts as not random.
TRIES = 30
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]
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
    """Resize, crop the centre, standardise: what most classifiers were trained with.

    Parameters
    ----------
    size : int or tuple of int
        What the model gets: the side of a square, or height and width.
    resize : int, optional
        Short side before the crop; that of `size` by default.
    mean, std : tuple of float
        Per channel, on a scale of 0 to 1.
    interpolation : str
        How pixels are resized.
    fit : {"crop", "squash"}
        Whether the sides keep their proportions, so that the crop leaves something out, or not.
    """

    size: int | tuple[int, int] = 224
    resize: int | None = None
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    interpolation: Interpolation = "bilinear"
    fit: Literal["crop", "squash"] = "crop"

    def __post_init__(self) -> None:
        if isinstance(self.size, list | tuple):
            object.__setattr__(self, "size", self.size[0] if len({*self.size}) == 1 else tuple(self.size))
        for name in ("mean", "std"):
            value = getattr(self, name)
            if not isinstance(value, list | tuple) or len(value) != 3 or not all(map(_is_number, value)):
                raise SettingError(f"{name} is {value!r}.", "Give three numbers, one per channel.")
            object.__setattr__(self, name, tuple(float(v) for v in value))
        pair = isinstance(self.size, tuple)
        sides = self.size if isinstance(self.size, tuple) else (self.size, self.size)
        rules: dict[str, tuple[bool, str]] = {
            "size": (len(sides) == 2 and all(map(_is_side, sides)), "Give a number of pixels, or (height, width)."),
            "resize": (
                self.resize is None or (_is_side(self.resize) and (pair or self.resize >= sides[0])),
                "Give a number of pixels that is not below the size, or leave it out.",
            ),
            "std": (all(v > 0 for v in self.std), "Use numbers above 0."),
            "interpolation": (self.interpolation in get_args(Interpolation), f"Use one of {get_args(Interpolation)}."),
            "fit": (self.fit in ("crop", "squash"), "Use 'crop' or 'squash'."),
        }
        for name, (fine, fix) in rules.items():
            if not fine:
                raise SettingError(f"{name} is {getattr(self, name)!r}.", fix)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of what the model gets."""
        return self.size if isinstance(self.size, tuple) else (self.size, self.size)

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
        changed = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return f"Preprocess({', '.join(changed)})"

    def record(self) -> dict[str, Any]:
        """Return it as plain values, for files."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

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
        short = min(high, wide)
        needed = self.resize or short
        scales = needed * wide / short / size[0], needed * high / short / size[1]
        if self.fit == "crop":
            scales = (max(scales), max(scales))
        width, height = max(round(size[0] * scales[0]), wide), max(round(size[1] * scales[1]), high)
        return width, height, (width - wide) // 2, (height - high) // 2

    def box(self, size: tuple[int, int]) -> Box:
        """Return which part of an image of ``(width, height)`` the model sees."""
        (high, wide), (width, height, left, top) = self.shape, self.geometry(size)
        across, down = size[0] / width, size[1] / height
        return left * across, top * down, (left + wide) * across, (top + high) * down

    def canvas(self, image: Image.Image) -> Image.Image:
        """Return the part of the image the model sees, of size `shape`: the grid lies on this."""
        width, height, left, top = self.geometry(image.size)
        if width * height > LARGEST:
            raise ImageError(
                f"an image of {image.width} x {image.height} pixels would become {width} x {height}.",
                "Crop it: it is a strip, and the model sees only a square of it.",
            )
        image = image.resize((width, height), Image.Resampling[self.interpolation.upper()])
        return image.crop((left, top, left + self.shape[1], top + self.shape[0]))

    def tensor(self, canvas: Image.Image) -> Tensor:
        """Return a canvas as a standardised ``(3, height, width)`` tensor."""
        pixels = torch.from_numpy(np.array(canvas.convert("RGB"))).permute(2, 0, 1).float().div(255)
        return (pixels - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]

    def picture(self, tensor: Tensor) -> Image.Image:
        """Undo `tensor`, to draw an image that came already preprocessed."""
        pixels = tensor.cpu().float() * torch.tensor(self.std)[:, None, None] + torch.tensor(self.mean)[:, None, None]
        array = pixels.clamp(0, 1).mul(255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        return Image.fromarray(array)

    def __call__(self, source: ImageLike) -> tuple[Tensor, Image.Image]:
        """Return the model's input ``(3, height, width)`` and the picture of it."""
        source = image_of(source)
        if isinstance(source, Tensor) and source.dtype != torch.uint8:
            if source.ndim != 3 or source.shape[0] != 3 or not source.is_floating_point() or 0 in source.shape:
                raise ShapeError(
                    f"an image tensor has shape {tuple(source.shape)} and type {source.dtype}.",
                    "Pass (3, height, width) floats, standardised; or an image, and it is done for you.",
                )
            if not bool(torch.isfinite(source).all()):
                raise ImageError("an image tensor holds NaN or infinite values.", "Check how it was standardised.")
            return source.float(), self.picture(source)
        return self._prepared(read_image(source))

    def _prepared(self, image: Image.Image) -> tuple[Tensor, Image.Image]:
        canvas = self.canvas(image)
        return self.tensor(canvas), canvas


@dataclass(frozen=True)
class CustomPreprocess(Preprocess):
    """Whatever a function makes of an image; made by `CustomPreprocess.of`.

    The model gets exactly what the function returns. Its size, mean and std, and which part of an image it shows, are
    found out by trying it on images of known pixels.
    """

    function: Callable[[Image.Image], Tensor] = field(kw_only=True, compare=False)
    label: str = field(default="a function", kw_only=True)  #: how records and messages name it

    @classmethod
    def of(cls, function: Callable[[Image.Image], Any], label: str | None = None) -> CustomPreprocess:
        """Return the preprocessing of a function from a PIL image to a tensor ``(3, height, width)``, after trying it.

        It must give one size for all images, the same for the same image, and standardise with a fixed mean and std.
        """
        label = label or str(getattr(function, "__qualname__", type(function).__name__))
        run = _Run(function, label)
        noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
        _check_repeats(function, run, Image.fromarray(noise), label)
        first, other = run(Image.fromarray(noise)), run(Image.fromarray(noise[:, :200]))
        if first.shape != other.shape:
            raise SettingError(
                f"{label} makes {tuple(first.shape)} of one image and {tuple(other.shape)} of another.",
                "Let it resize and crop to one size.",
            )
        dark, light = (run(Image.new("RGB", (320, 240), (v, v, v))).flatten(1) for v in (0, 255))
        middle = dark.shape[1] // 2
        low, span = dark[:, middle], light[:, middle] - dark[:, middle]
        flat = all(float((x - x[:, middle : middle + 1]).abs().median()) < 1e-3 for x in (dark, light))
        if not flat or not bool((span > 1e-6).all()):
            raise SettingError(
                f"{label} does not standardise with a fixed mean and std.",
                "Standardise per image inside the model, and let the transform only resize, crop and scale.",
            )
        std = 1 / span
        mean = -low * std
        triple = [tuple(round(float(v), 6) for v in values) for values in (mean, std)]
        size = int(first.shape[1]), int(first.shape[2])
        return cls(size, None, *triple, function=run, label=label)  # type: ignore[arg-type]

    def key(self) -> str:
        """Return what caches are kept under: what the function makes of a few images."""
        import hashlib

        made = hashlib.blake2b(digest_size=12)
        for seed, (high, wide) in enumerate([(240, 320), (500, 333), (64, 64)]):
            noise = np.random.default_rng(seed).integers(0, 256, (high, wide, 3), np.uint8)
            made.update(self.function(Image.fromarray(noise)).numpy().tobytes())
        return f"CustomPreprocess({made.hexdigest()})"

    def record(self) -> dict[str, Any]:
        """Return it as plain values, for files; the function is only named."""
        return {**self.declared().record(), "function": self.label, "key": self.key()}

    def declared(self) -> Preprocess:
        """Return what is known of it without the function: it takes pictures that the function has prepared."""
        return Preprocess(self.size, None, self.mean, self.std)

    @cached_property
    def _boxes(self) -> dict[tuple[int, int], Box]:
        return {}

    def box(self, size: tuple[int, int]) -> Box:
        """Return which part of an image of ``(width, height)`` the model sees; found by trying it on two ramps."""
        if size not in self._boxes:
            across = self._edges(_ramp(size[0], size[1]), size[0], axis=1)
            down = self._edges(_ramp(size[1], size[0]).T, size[1], axis=0)
            self._boxes[size] = (across[0], down[0], across[1], down[1])
        return self._boxes[size]

    def _edges(self, ramp: NDArray[np.uint8], length: int, axis: int) -> tuple[float, float]:
        """Return where what the model sees begins and ends along one axis, in pixels of the image."""
        out = self.function(Image.fromarray(np.ascontiguousarray(ramp)).convert("RGB"))
        value = (out * torch.tensor(self.std)[:, None, None] + torch.tensor(self.mean)[:, None, None]).mean(0).numpy()
        line = np.median(value, axis=1 - axis).astype(float)
        rough = float(np.abs(value - np.expand_dims(line, 1 - axis)).mean())
        inside = (line > 0.02) & (line < 0.98)  # what is padded, or at the rim, says nothing
        places = np.arange(len(line)) + 0.5
        if inside.sum() >= 2:
            slope, start = np.polyfit(places[inside], line[inside] * length, 1)
            wrong = float(np.abs(np.polyval((slope, start), places[inside]) - line[inside] * length).max()) / length
            if rough < 0.1 and slope > 0 and wrong < 0.1:
                return float(start), float(start + slope * len(line))
        raise SettingError(
            f"{self.label} does more than resize and crop, so where its pixels come from is unknown.",
            "Leave out what turns, mirrors or warps the image.",
        )

    def geometry(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return how an image of ``(width, height)`` is resized and where it is cropped: width, height, left, top."""
        left, top, right, bottom = self.box(size)
        across, down = self.shape[1] / (right - left), self.shape[0] / (bottom - top)
        return round(size[0] * across), round(size[1] * down), round(left * across), round(top * down)

    def canvas(self, image: Image.Image) -> Image.Image:
        """Return the part of the image the model sees, of size `shape`: the grid lies on this."""
        return self.picture(self.function(image))

    def _prepared(self, image: Image.Image) -> tuple[Tensor, Image.Image]:
        made = self.function(image)
        return made, self.picture(made)


@dataclass(frozen=True)
class _Run:
    """A user's function, its result checked."""

    function: Callable[[Image.Image], Any]
    label: str

    def __call__(self, image: Image.Image) -> Tensor:
        try:
            made = self.function(image)
        except Exception as error:  # it is anybody's code
            raise SettingError(
                f"{self.label} fails on an image ({type(error).__name__}: {error}).",
                "Pass a function from a PIL image to a tensor (3, height, width).",
            ) from error
        if isinstance(made, np.ndarray):
            made = torch.from_numpy(made)
        if isinstance(made, Tensor) and made.ndim == 4 and len(made) == 1:
            made = made[0]
        if not isinstance(made, Tensor) or made.ndim != 3 or made.shape[0] != 3 or not made.is_floating_point():
            got = f"{tuple(made.shape)} {made.dtype}" if isinstance(made, Tensor) else f"a {type(made).__name__}"
            raise SettingError(
                f"{self.label} returns {got}.",
                "Let it end with v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std).",
            )
        return made.detach().as_subclass(Tensor).cpu().float()


def _check_repeats(function: Any, run: _Run, image: Image.Image, label: str) -> None:
    """Raise an error if a function is random: by what it is composed of, or by what it makes of one image."""
    steps = list(_steps(function))
    random = [step for step in steps if _is_random(step)]
    if not random:
        first = run(image)
        if all(torch.equal(first, run(image)) for _ in range(TRIES)):
            return
        # Transforms of torchvision that draw something have one of these; plain ones of v2 inherit the second.
        random = [step for step in steps if hasattr(step, "get_params") or "make_params" in vars(type(step))]
    names = list(dict.fromkeys(type(step).__name__ for step in random))
    inside = [name for name in names if name != label]
    raise SettingError(
        f"{' and '.join(inside)} in {label} gives another result each time."
        if inside
        else f"{label} gives another result each time.",
        f"Pass the transform of test images, without {' and '.join(inside) or 'randomness'}.",
    )


def _steps(function: Any) -> Iterator[Any]:
    """Yield a transform and everything it is composed of."""
    if isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__self__", function)  # a method of a transform
    yield function
    inside = getattr(function, "transforms", None)  # of Compose, RandomApply and their like
    parts = list(inside) if isinstance(inside, Iterable) else []
    for part in [*parts, *(function.children() if isinstance(function, nn.Module) else ())]:
        yield from _steps(part)


def _is_random(step: Any) -> bool:
    """Tell whether a step of a transform draws anything, as far as its name and its probability say."""
    if isinstance(step, nn.Dropout) and not step.training:
        return False
    chance = getattr(step, "p", None)
    if chance is not None and _is_number(chance):
        return bool(0 < chance < 1)
    return type(step).__name__.startswith(("Random", "RandAugment"))


def _ramp(length: int, rows: int) -> NDArray[np.uint8]:
    """Return an image whose brightness tells how far along its columns are."""
    values = np.round((np.arange(length) + 0.5) / length * 255).astype(np.uint8)
    return np.repeat(values[None], rows, 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _is_side(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 16384
