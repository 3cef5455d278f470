"""The aviary as a data set: drawn on demand, nothing on disk."""

from __future__ import annotations

import ast
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from partswap import aviary
from partswap.data.base import DATASETS, Attributes, Dataset, Meaning, Sample, check_split, digest
from partswap.data.files import by_part
from partswap.errors import SettingError

#: Each split has its own stream of random numbers, so no image is in two of them.
SPLITS = {"train": 0, "test": 1, "unlabelled": 2}


@DATASETS.register("aviary")
class Aviary(Dataset):
    """Procedurally drawn birds with exact ground truth.

    Parameters
    ----------
    split : {"train", "test", "unlabelled"}
        Which stream of images.
    per_class : int
        Images per species.
    seed : int
        Another seed, other images.
    """

    splits = tuple(SPLITS)
    needs_path = False

    def __init__(self, split: str = "test", *, per_class: int = 25, seed: int = 0, merge_sides: bool = True) -> None:
        check_split("aviary", split, self.splits)
        if per_class < 1:
            raise SettingError(f"per_class is {per_class}.", "Use at least 1.")
        self.split, self.per_class, self.seed = split, per_class, seed
        self.species = aviary.all_species()
        self.classes = [s.name for s in self.species]
        self.merge_sides = merge_sides
        self.parts = aviary.PARTS if merge_sides else aviary.KEYPOINTS

    def __len__(self) -> int:
        return len(self.species) * self.per_class

    def label(self, index: int) -> int:
        """Return the class of an image: they take turns, so any prefix of the data set is balanced."""
        return index % len(self.species)

    def image_name(self, index: int) -> str:
        """Return the name of an image."""
        return f"{self.split}/{self.seed}/{index:05d}"

    def bird(self, index: int) -> aviary.Bird:
        """Draw one image."""
        if not 0 <= index < len(self):
            raise IndexError(f"aviary {self.split} has {len(self)} images; there is no image {index}")
        return aviary.draw(self.label(index), (self.seed, SPLITS[self.split], index // len(self.species)))

    def image(self, index: int) -> Image:
        """Draw one image, without its annotations."""
        return self.bird(index).image

    def __getitem__(self, index: int) -> Sample:
        bird = self.bird(index)
        visible = ((name, x, y) for name, (x, y, seen) in bird.keypoints.items() if seen)
        keypoints = by_part(visible, bird.image.size, merge_sides=self.merge_sides)
        label = self.label(index)
        return Sample(
            self.image_name(index), bird.image, label, keypoints, bird.mask, bird.part_masks, self.classes[label]
        )

    def fingerprint(self) -> str:
        """Return a key that changes with the settings and with the way birds are drawn."""
        return _fingerprint(self.split, self.per_class, self.seed)

    def differing_parts(self, first: int, second: int) -> frozenset[str]:
        """Return the parts in which two species truly differ."""
        return aviary.differing_parts(first, second)

    def attributes(self) -> Attributes:
        """Return the attributes of the species, which all of their images have."""
        every = sorted({(name, value) for s in self.species for name, value in s.attributes.items()})
        share = [[float(s.attributes[name] == value) for name, value in every] for s in self.species]
        meanings = [Meaning(aviary.ATTRIBUTE_PARTS[name], _words(name), value) for name, value in every]
        return Attributes([f"{name}::{value}" for name, value in every], np.array(share), meanings)

    def pixels(self, *, workers: int = 1) -> NDArray[np.uint8]:
        """Draw all images, ``(n, 224, 224, 3)`` uint8, on several processes if asked."""
        if workers <= 1:
            return self._chunk(np.arange(len(self)))
        chunks = np.array_split(np.arange(len(self)), min(len(self), workers * 8))
        with ProcessPoolExecutor(workers) as pool:
            return np.concatenate(list(pool.map(self._chunk, chunks)))

    def _chunk(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        return np.stack([self.bird(int(i)).pixels for i in indices])


@cache
def _fingerprint(split: str, per_class: int, seed: int) -> str:
    data = Aviary(split, per_class=per_class, seed=seed)
    drawn = [data.bird(i).pixels.tobytes() for i in range(0, len(data), max(1, len(data) // 3))]
    # Other libraries show in a few birds; our own drawing may change for one species only.
    code = [bare_code(path.read_text("utf-8")) for path in sorted(Path(aviary.__file__).parent.glob("[!_]*.py"))]
    return digest("aviary", split, per_class, seed, drawn, code)


def _words(attribute: str) -> str:
    return attribute.replace("_", " ").replace("color", "colour")


def bare_code(source: str) -> str:
    """Return code without comments, docstrings, imports and layout, so that caches survive changes of those."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _does_nothing(line)]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _does_nothing(line: ast.stmt) -> bool:
    text = isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    return text or isinstance(line, ast.Import | ast.ImportFrom)
