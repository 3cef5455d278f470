"""The base of data sets that are files on disk."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.data.base import Dataset, Sample, check_split, digest
from partswap.data.rle import RunLengths
from partswap.data.text import Faults, complain
from partswap.errors import DataError, ImageError
from partswap.inputs.images import read_image
from partswap.utils.sides import merge_sides as merge

#: Files that can be transparent, by suffix.
TRANSPARENT = (".avif", ".gif", ".png", ".tga", ".tif", ".tiff", ".webp")

Keypoint = tuple[str, float, float]
#: x, y, width and height.
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Item:
    """One image on disk."""

    name: str  #: Identifies the image within its data set.
    path: Path
    label: int  #: The class.
    #: Name, x and y of visible keypoints, as annotated (even outside the image); None if the image is not annotated.
    keypoints: Sequence[Keypoint] | None = None
    mask: Path | RunLengths | None = None  #: Where the object is.
    box: Box | None = None  #: The object's box.


@dataclass(frozen=True)
class Listing:
    """The content of a data set's own files."""

    items: list[Item]  #: The images of the split.
    classes: list[str]  #: All classes, whether they have images or not.
    listed: frozenset[str]  #: Every image file the lists mention, in any split, relative to `base`.
    base: Path
    folders: list[Path]  #: Where image files lie, to find those that are in no list.
    keypoints: Sequence[str] = ()  #: Names of the keypoints, sides apart.


class FileDataset(Dataset):
    """A data set on disk; a subclass reads its lists in `_read`.

    Parameters
    ----------
    path : str or Path
        Its folder.
    split : str
        Which images.
    merge_sides : bool
        Whether left and right count as one part.
    skip_bad : bool
        Whether to leave out images that are missing or cannot be read (listed in `skipped`). It costs reading
        them all once; without it, the first access to such an image raises the error.
    faults : list of DataError, optional
        Collects malformed lines instead of raising on the first.
    """

    #: Its registered name, for messages.
    name: ClassVar[str]
    #: Whether images are turned as the camera says; not where annotations are on the pixels as they are stored.
    upright: ClassVar[bool] = False
    skipped: list[tuple[str, str]]

    def __init__(
        self,
        path: str | Path,
        split: str = "test",
        *,
        merge_sides: bool = True,
        skip_bad: bool = False,
        faults: Faults = None,
    ) -> None:
        check_split(self.name, split, self.splits)
        self.root = self.find_root(Path(path))
        self.split, self.merge_sides, self.faults = split, merge_sides, faults
        #: Annotations for images that no list mentions: (file, what).
        self.orphans: list[tuple[str, str]] = []
        self.skipped = []
        self.listing = self._read()
        self.items = self.listing.items
        self.classes = self.listing.classes
        self.parts = sorted({merge(k) for k in self.listing.keypoints}) if merge_sides else list(self.listing.keypoints)
        if not self.items:
            problem = f"{self.root} has no images in the split {split!r}."
            complain(DataError(problem, "Check its lists, or take another split."), faults)
        if skip_bad:
            self._skip_bad()
        self._labels = np.array([item.label for item in self.items], np.int64)

    @abstractmethod
    def _read(self) -> Listing:
        """Return the content of `root` for `split`; malformed lines go to `text.complain` with `faults`."""

    @classmethod
    def find_root(cls, path: Path) -> Path:
        """Return the folder that holds the data set's files, given it or (for some) the one above."""
        if not path.is_dir():
            raise DataError(f"there is no folder {path}.", "Check the path.")
        return path

    @classmethod
    def disjoint_splits(cls, path: Path) -> list[str]:
        """Return the splits a folder holds that together are everything in it, once."""
        return [split for split in cls.splits if split != "all"]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Sample:
        item = self.item(index)
        image = read_image(item.path, upright=self.upright)
        return Sample(
            name=item.name,
            image=image,
            label=item.label,
            keypoints=self._keypoints(item, image.size),
            mask=mask_of(item, image.size),
            class_name=self.classes[item.label],
        )

    def image(self, index: int) -> Image.Image:
        """Return one image without its annotations."""
        return read_image(self.item(index).path, upright=self.upright)

    def item(self, index: int) -> Item:
        """Return an image's annotations without reading it."""
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name} {self.split} has {len(self)} images; there is no image {index}")
        return self.items[index]

    def image_name(self, index: int) -> str:
        """Return the name of an image."""
        return self.item(index).name

    def box(self, index: int) -> Box | None:
        """Return the object's box, None if there is none."""
        return self.item(index).box

    def check_tables(self) -> None:
        """Raise an error if something is wrong with a table that is not read before it is needed."""

    def label(self, index: int) -> int:
        """Return the class of an image."""
        return self.item(index).label

    def labels(self) -> NDArray[np.int64]:
        """Return the classes of all images."""
        return self._labels.copy()

    def fingerprint(self) -> str:
        """Return a key that changes when a file or a label does (by name, size and time of change)."""
        facts = []
        for item in self.items:
            try:
                stat = item.path.stat()
            except OSError as error:
                raise DataError(f"the image {item.path} is missing.", "Restore it, or pass skip_bad=True.") from error
            facts.append((item.name, item.label, stat.st_size, stat.st_mtime_ns))
        # Pixels that are read another way are other pixels.
        read = ["upright"] if self.upright else []
        read += ["on white"] if any(item.name.lower().endswith(TRANSPARENT) for item in self.items) else []
        return digest(type(self).__name__, self.split, facts, *read)

    def _keypoints(self, item: Item, size: tuple[int, int]) -> dict[str, list[tuple[float, float]]] | None:
        if item.keypoints is None:
            return None
        return by_part(item.keypoints, size, merge_sides=self.merge_sides)

    def _skip_bad(self) -> None:
        kept = []
        for item in self.items:
            try:
                read_image(item.path)
            except ImageError as error:
                self.skipped.append((item.name, error.problem))
            else:
                kept.append(item)
        if self.items and not kept:
            raise DataError(f"none of the {len(self.items)} images in {self.root} can be read.", "Check the files.")
        self.items = kept


def by_part(
    keypoints: Iterable[Keypoint], size: tuple[int, int], *, merge_sides: bool = False
) -> dict[str, list[tuple[float, float]]]:
    """Return part -> where it is, for the keypoints that lie on an image of ``(width, height)``."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, x, y in keypoints:
        if is_inside(x, y, size):
            found.setdefault(merge(name) if merge_sides else name, []).append((x, y))
    return found


def is_inside(x: float, y: float, size: tuple[int, int]) -> bool:
    """Return whether a point lies on an image of ``(width, height)``."""
    return 0 <= x < size[0] and 0 <= y < size[1]


def mask_of(item: Item, size: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Return an item's mask after checking that it fits the image; None if its file does not exist."""
    if isinstance(item.mask, RunLengths):
        mask, where = item.mask.decode(), f"the mask of {item.name}"
    elif item.mask is None or not item.mask.exists():
        return None  # masks of some images only are common; `check` counts the missing ones
    else:
        mask, where = read_mask(item.mask), f"the mask {item.mask}"
    if mask.shape != (size[1], size[0]):
        raise DataError(
            f"{where} has {mask.shape[1]} x {mask.shape[0]} pixels, its image {item.path} {size[0]} x {size[1]}.",
            "Resize one to the other, or remove the mask.",
        )
    return mask


def read_mask(path: Path) -> NDArray[np.bool_]:
    """Return where a 1-bit or greyscale picture is brighter than half of its brightest pixel."""
    try:
        with Image.open(path) as image:
            # Sixteen bits would be clipped by a conversion to eight.
            pixels = np.asarray(image if image.mode.startswith(("I", "F")) else image.convert("L"), np.float64)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"the mask {path} cannot be read ({error}).", "Replace or remove the file.") from error
    return np.asarray(pixels > pixels.max(initial=0) / 2)


def class_title(folder: str) -> str:
    """Return a class name to read: ``"001.Black_footed_Albatross"`` is "Black footed Albatross"."""
    return re.sub(r"^\d+\.", "", folder).replace("_", " ").strip() or folder
