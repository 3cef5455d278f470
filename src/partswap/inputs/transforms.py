"""Any function of a user's from images to tensors, followed exactly: what it does is found out by trying it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from partswap.errors import SettingError
from partswap.inputs.images import ImageLike, read_image
from partswap.inputs.preprocess import Box, Preprocess, column, is_number

#: How often a function is tried on one image before it counts as not random.
TRIES = 30


@dataclass(frozen=True)
class CustomPreprocess(Preprocess):
    """Whatever a function makes of an image; made by `CustomPreprocess.of`.

    The model gets exactly what the function returns. Its size, mean and std, and which part of an image it shows, are
    found out by trying it on images of known pixels.
    """

    function: Callable[[Image.Image], Tensor] = field(kw_only=True, compare=False)
    label: str = field(default="a function", kw_only=True)  #: how records and messages name it

    @classmethod
    def of(
        cls, function: Callable[[Image.Image], Any], label: str | None = None, *, channels: int = 3
    ) -> CustomPreprocess:
        """Return the preprocessing of a function from a PIL image to a tensor ``(channels, height, width)``.

        It is tried first: it must give one size for all images, the same for the same image, and standardise with a
        fixed mean and std. For a model of one channel it gets gray images if it makes no gray of colors itself.
        """
        label = label or str(getattr(function, "__qualname__", type(function).__name__))
        run = _Run(function, label, channels)
        noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
        if channels == 1 and len(run(Image.fromarray(noise))) != 1:
            run = _Run(function, label, channels, "L")
        _check_repeats(function, run, Image.fromarray(noise), label)
        first, second = run(Image.fromarray(noise)), run(Image.fromarray(noise[:, :200]))
        if first.shape != second.shape:
            raise SettingError(
                f"{label} makes {tuple(first.shape)} of one image and {tuple(second.shape)} of another.",
                "Let it resize and crop to one size.",
            )
        dark, light = (run(Image.new("RGB", (320, 240), (v, v, v))).flatten(1) for v in (0, 255))
        middle = dark.shape[1] // 2
        low, span = dark[:, middle], light[:, middle] - dark[:, middle]
        flat = all(float((x - x[:, middle : middle + 1]).abs().median()) < 1e-3 for x in (dark, light))
        if flat and bool((span < -1e-6).all()):
            raise SettingError(
                f"{label} inverts images: of white it makes less than of black.",
                "Invert inside the model, a module around yours, and let the transform only resize, crop and scale.",
            )
        if not flat or not bool((span > 1e-6).all()):
            raise SettingError(
                f"{label} does not standardise with a fixed mean and std.",
                "Standardise per image inside the model, and let the transform only resize, crop and scale.",
            )
        mean, std = (tuple(round(float(v), 6) for v in values) for values in (-low / span, 1 / span))
        return cls((int(first.shape[1]), int(first.shape[2])), None, mean, std, function=run, label=label)

    def key(self) -> str:
        """Return what caches are kept under: what the function makes of a few images."""
        import hashlib

        summary = hashlib.blake2b(digest_size=12)
        for seed, (high, wide) in enumerate([(240, 320), (500, 333), (64, 64)]):
            noise = np.random.default_rng(seed).integers(0, 256, (high, wide, 3), np.uint8)
            summary.update(self.function(Image.fromarray(noise)).numpy().tobytes())
        return f"CustomPreprocess({summary.hexdigest()})"

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
        value = (out * column(self.std) + column(self.mean)).mean(0).numpy()
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

    def crop(self, image: Image.Image) -> Image.Image:
        """Return the part of the image the model sees, of size `shape`: the grid lies on this."""
        return self.picture(self.function(image))

    def read(self, source: ImageLike) -> Image.Image:
        """Return an image as an RGB picture, as functions take them."""
        return read_image(source)

    def _prepared(self, image: Image.Image | NDArray[np.uint8]) -> tuple[Tensor, Image.Image]:
        tensor = self.function(read_image(image))
        return tensor, self.picture(tensor)


@dataclass(frozen=True)
class _Run:
    """A user's function, its result checked."""

    function: Callable[[Image.Image], Any]
    label: str
    channels: int  #: what the model takes, as far as it shows
    mode: str = "RGB"  #: of the pictures it is given

    def __call__(self, image: Image.Image) -> Tensor:
        try:
            result = self.function(image.convert(self.mode))
        except Exception as error:  # it is anybody's code
            raise SettingError(
                f"{self.label} fails on an image ({type(error).__name__}: {error}).",
                "Pass a function from a PIL image to a tensor (channels, height, width).",
            ) from error
        if isinstance(result, np.ndarray):
            result = torch.from_numpy(result)
        if isinstance(result, Tensor) and result.ndim == 4 and len(result) == 1:
            result = result[0]
        fits = isinstance(result, Tensor) and result.ndim == 3 and result.shape[0] in (1, 3, self.channels)
        if not isinstance(result, Tensor) or not fits or not result.is_floating_point():
            got = (
                f"{tuple(result.shape)} {result.dtype}" if isinstance(result, Tensor) else f"a {type(result).__name__}"
            )
            raise SettingError(
                f"{self.label} returns {got}.",
                "Let it end with v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std).",
            )
        return result.detach().as_subclass(Tensor).cpu().float()


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
    if chance is not None and is_number(chance):
        return bool(0 < chance < 1)
    return type(step).__name__.startswith(("Random", "RandAugment"))


def _ramp(length: int, rows: int) -> NDArray[np.uint8]:
    """Return an image whose brightness tells how far along its columns are."""
    values = np.round((np.arange(length) + 0.5) / length * 255).astype(np.uint8)
    return np.repeat(values[None], rows, 0)
