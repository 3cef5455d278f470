"""Draw a bird into a scene, with its ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.aviary import scene
from partswap.aviary.bird import LABEL, TAIL_LENGTHS, BirdPainter, Canvas
from partswap.aviary.pose import SIZE, sample_pose
from partswap.aviary.species import KEYPOINTS, PARTS, Species, all_species
from partswap.errors import ClassIndexError


@dataclass(frozen=True)
class Bird:
    """A picture of one bird and its ground truth."""

    pixels: NDArray[np.uint8]  #: ``(224, 224, 3)``.
    species: Species
    keypoints: Mapping[str, tuple[float, float, bool]]  #: For each of `KEYPOINTS`: x, y and whether it can be seen.
    labels: NDArray[np.uint8]  #: ``(224, 224)``: 0 no bird, 1 + i part ``PARTS[i]``, 255 bird but no named part.

    @cached_property
    def image(self) -> Image.Image:
        """The picture."""
        return Image.fromarray(self.pixels)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Where the bird can be seen, ``(224, 224)`` bool."""
        return np.asarray(self.labels > 0)

    def part_mask(self, part: str) -> NDArray[np.bool_]:
        """Return where one of `PARTS` can be seen, ``(224, 224)`` bool."""
        return np.asarray(self.labels == LABEL[part])

    @property
    def part_masks(self) -> dict[str, NDArray[np.bool_]]:
        """The mask of every part."""
        return {part: self.part_mask(part) for part in PARTS}


def draw(species: int, seed: int | tuple[int, ...] = 0) -> Bird:
    """Draw one bird.

    Parameters
    ----------
    species : int
        The class, an index into `all_species()`.
    seed : int or tuple of int
        The same species and seed give the same picture.
    """
    everyone = all_species()
    if not 0 <= species < len(everyone):
        raise ClassIndexError(f"there is no species {species} in the aviary.", f"Use 0 to {len(everyone) - 1}.")
    who = everyone[species]
    entropy = (seed,) if isinstance(seed, int) else tuple(seed)
    rng = np.random.default_rng((species, *entropy))

    pose = sample_pose(rng, who.plan, TAIL_LENGTHS[who.attributes["tail_length"]])
    painter = BirdPainter(who, pose, rng)
    rgb = scene.background(rng)
    feet = pose.to_pixels(np.array(painter.feet()))
    scene.perch(rgb, rng, (float(feet[:, 0].mean()), float(feet[:, 1].mean())), pose.scale)
    canvas = Canvas(rgb, np.zeros((SIZE, SIZE), np.uint8))
    painter.draw(canvas)
    front, cover = scene.foreground(rng, pose.center)
    canvas.rgb += cover[..., None] * (front - canvas.rgb)
    canvas.label[cover > 0.5] = 0
    pixels = (scene.daylight(canvas.rgb, rng) * 255 + 0.5).astype(np.uint8)

    names = list(painter.keypoints)
    points = pose.to_pixels(np.array([painter.keypoints[k] for k in names]))
    keypoints = dict.fromkeys(KEYPOINTS, (0.0, 0.0, False))
    for name, (x, y) in zip(names, points, strict=True):
        inside = 0 <= x < SIZE and 0 <= y < SIZE
        seen = inside and not cover[int(y), int(x)] > 0.5
        keypoints[name] = (float(x), float(y), bool(seen))
    return Bird(pixels, who, keypoints, canvas.label)
