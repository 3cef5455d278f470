"""Images and their annotations through the same resizing, cropping and flipping."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from partswap import _vision
from partswap.data.base import Sample
from partswap.data.files import by_part
from partswap.errors import SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.utils.sides import swap_sides


def on_canvas(sample: Sample, preprocess: Preprocess) -> Sample:
    """Return a sample as the model sees it: resized and cropped, annotations with it.

    The image is exactly ``preprocess.crop(sample.image)``; keypoints that the crop leaves out are gone.
    """
    functional = _vision.torchvision("transforms.v2.functional")
    width, height, left, top = preprocess.geometry(sample.image.size)

    def move(thing: Any) -> Any:
        return functional.crop(functional.resize(thing, [height, width]), top, left, *preprocess.shape)

    return _moved(sample, preprocess.crop(sample.image), move)


@dataclass(frozen=True)
class RandomView:
    """A training view: a random piece of the image, resized and perhaps mirrored, annotations with it.

    Parameters
    ----------
    size : int
        Side of the view.
    scale : tuple of float
        The least and the greatest share of the image's area.
    ratio : tuple of float
        The least and the greatest width by height of the piece.
    flip : bool
        Whether to mirror every other view.
    """

    size: int = 224
    scale: tuple[float, float] = (0.35, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingError(f"size is {self.size}.", "Use at least 1.")
        for name, (least, most) in (("scale", self.scale), ("ratio", self.ratio)):
            if not 0 < least <= most:
                raise SettingError(f"{name} is {(least, most)}.", "Use two positive numbers, the lesser first.")

    def __call__(self, sample: Sample, seed: int) -> Sample:
        """Return the view that belongs to a seed; the global random numbers stay as they were."""
        functional = _vision.torchvision("transforms.v2.functional")
        rng = np.random.default_rng(seed)
        top, left, height, width = self.piece(sample.image.size, rng)
        mirror = self.flip and bool(rng.random() < 0.5)

        def move(thing: Any) -> Any:
            return functional.resized_crop(thing, top, left, height, width, [self.size, self.size], antialias=True)

        # A keypoint names a pixel. Its centre, unlike its corner, is inside the same pixel when mirrored.
        if sample.keypoints is not None:
            centres = {p: [(int(x) + 0.5, int(y) + 0.5) for x, y in at] for p, at in sample.keypoints.items()}
            sample = replace(sample, keypoints=centres)
        view = _moved(sample, move(sample.image), move)
        return _mirrored(view) if mirror else view

    def piece(self, size: tuple[int, int], rng: np.random.Generator) -> tuple[int, int, int, int]:
        """Draw the piece (top, left, height, width) of an image of ``(width, height)``.

        As torchvision's RandomResizedCrop draws it; that one uses the global random numbers, which threads that
        prepare images beside a training would disturb.
        """
        for _ in range(10):
            area = size[0] * size[1] * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < width <= size[0] and 0 < height <= size[1]:
                left, top = rng.integers(size[0] - width + 1), rng.integers(size[1] - height + 1)
                return int(top), int(left), height, width
        width = min(size[0], round(size[1] * self.ratio[1]))
        height = min(size[1], round(size[0] / self.ratio[0]))
        return (size[1] - height) // 2, (size[0] - width) // 2, height, width


def _moved(sample: Sample, image: Image.Image, move: Callable[[Any], Any]) -> Sample:
    """Return a sample with its image given and its annotations moved by a torchvision functional."""
    tensors, keypoints = _vision.torchvision("tv_tensors"), sample.keypoints
    if keypoints is not None:
        names = [part for part, points in keypoints.items() for _ in points]
        flat = [point for points in keypoints.values() for point in points]
        canvas = (sample.image.height, sample.image.width)
        if flat:  # torchvision refuses to wrap an empty list of points
            flat = move(tensors.KeyPoints(torch.tensor(flat, dtype=torch.float64), canvas_size=canvas)).tolist()
        # torchvision moves points out of the canvas; `by_part` leaves those out.
        keypoints = by_part(((name, x, y) for name, (x, y) in zip(names, flat, strict=True)), image.size)
    return replace(
        sample,
        image=image,
        keypoints=keypoints,
        mask=None if sample.mask is None else _moved_mask(sample.mask, move),
        part_masks={part: _moved_mask(mask, move) for part, mask in sample.part_masks.items()},
    )


def _moved_mask(mask: NDArray[np.bool_], move: Callable[[Any], Any]) -> NDArray[np.bool_]:
    wrapped = _vision.torchvision("tv_tensors").Mask(torch.from_numpy(np.ascontiguousarray(mask, np.uint8))[None])
    moved: Tensor = move(wrapped)
    return np.asarray(moved.as_subclass(Tensor)[0].numpy().astype(bool))


def _mirrored(sample: Sample) -> Sample:
    """Return the mirror image; left and right parts change names."""
    width = sample.image.width
    keypoints = sample.keypoints
    if keypoints is not None:
        # torchvision mirrors numbers of pixels (width - 1 - x); these are positions between 0 and the width.
        keypoints = {swap_sides(p): [(width - x, y) for x, y in points] for p, points in keypoints.items()}
    return replace(
        sample,
        image=sample.image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        keypoints=keypoints,
        mask=None if sample.mask is None else np.ascontiguousarray(sample.mask[:, ::-1]),
        part_masks={swap_sides(p): np.ascontiguousarray(m[:, ::-1]) for p, m in sample.part_masks.items()},
    )
