"""Check whether a data set is whole: reports everything that is wrong, not only the first thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import track

from partswap.data.base import DATASETS, Dataset, Sample, check_split, open_dataset
from partswap.data.files import Box, FileDataset, Item, Keypoint, is_inside, mask_of
from partswap.errors import DataError, ImageError
from partswap.inputs.images import image_suffixes, read_image
from partswap.utils.progress import bars, step


@dataclass(frozen=True)
class DatasetProblem:
    """One thing that is wrong, or only odd."""

    kind: str  #: Such as "missing file": the same words for the same kind.
    where: str  #: The file, image or class.
    what: str  #: What is wrong with it.
    harmless: bool = False  #: Whether results are right nevertheless: it is a note then.


@dataclass
class SplitCounts:
    """How many images a split holds."""

    images: int
    with_keypoints: int
    with_mask: int
    per_class: tuple[int, float, int]  #: Least, median and greatest number of images in a class.


@dataclass
class DatasetCheck:
    """The result of a check.

    A problem would give wrong results, or an error later: an image that cannot be read, a keypoint or box that belongs
    to an image of another size. A note is harmless, and official data sets have such: a keypoint just outside of the
    image (it is left out), a box that reaches over the edge by a little (boxes are not used), an image without any
    visible part (metrics on keypoints leave it out), a file that no list mentions.
    """

    problems: list[DatasetProblem] = field(default_factory=list)
    notes: list[DatasetProblem] = field(default_factory=list)
    splits: dict[str, SplitCounts] = field(default_factory=dict)
    classes: int = 0  #: How many.
    parts: int = 0  #: How many.
    modes: Counter[str] = field(default_factory=Counter)  #: Image mode ("RGB", "L", "CMYK", ...) -> how many images.
    widths: tuple[int, int] | None = None  #: Least and greatest.
    heights: tuple[int, int] | None = None  #: Least and greatest.

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def kinds(self) -> dict[str, int]:
        """Return how many problems there are of each kind."""
        return dict(Counter(problem.kind for problem in self.problems))

    def _take(self, found: Iterable[DatasetProblem]) -> None:
        for one in found:
            (self.notes if one.harmless else self.problems).append(one)

    def _add(self, kind: str, where: object, what: str) -> None:
        self.problems.append(DatasetProblem(kind, str(where), what))

    def _saw(self, mode: str, size: tuple[int, int]) -> None:
        self.modes[mode] += 1
        self.widths, self.heights = _wider(self.widths, size[0]), _wider(self.heights, size[1])


#: Mode and size of one image, None if it cannot be read; and its problems.
_Seen = tuple[tuple[str, tuple[int, int]] | None, list[DatasetProblem]]


def check_dataset(
    name: str,
    path: str | Path | None = None,
    *,
    split: str | None = None,
    workers: int = 4,
    console: Console | None = None,
    **options: Any,
) -> DatasetCheck:
    """Read everything a data set has and report all that is wrong with it.

    Parameters
    ----------
    name : str
        A registered data set.
    path : str or Path, optional
        Its folder; a data set without one is drawn, and its drawings are checked.
    split : str, optional
        One split only; by default all that are there.
    workers : int
        Threads that read images.
    console : rich.console.Console, optional
        Where to draw a progress bar; none is drawn without it.
    **options
        Other parameters of the data set.
    """
    kind = DATASETS.get(name)
    if path is None or not issubclass(kind, FileDataset):
        return _check_drawn(name, path, [split] if split else list(kind.splits), console, options)
    if split is not None:
        check_split(name, split, kind.splits)
    options = {key: value for key, value in options.items() if key != "skip_bad"}  # such images are to be named
    report = DatasetCheck()
    faults: list[DataError] = []
    opened: list[FileDataset] = []
    root = kind.find_root(Path(path))
    for each in [split] if split else kind.disjoint_splits(root):
        try:
            with nullcontext() if console is None else step(bars, f"opening {each}"):
                data = open_dataset(name, path, each, faults=faults, **options)
            assert isinstance(data, FileDataset)
            opened.append(data)
        except DataError as error:
            faults.append(error)
    for data in opened[:1]:  # tables are about all splits
        try:
            data.check_tables()
        except DataError as error:
            faults.append(error)
    for fault in dict.fromkeys(map(str, faults)):  # splits read the same lists: say it once
        report._add("malformed annotation", path, fault)
    for where, what in dict.fromkeys(orphan for data in opened for orphan in data.orphans):
        report._add("annotation without image", where, f"{what} is in no list")
    for data in opened:
        _check_images(data, report, workers, console)
        with_mask = sum(item.mask.exists() if isinstance(item.mask, Path) else bool(item.mask) for item in data.items)
        with_keypoints = sum(item.keypoints is not None for item in data.items)
        report.splits[data.split] = SplitCounts(len(data), with_keypoints, with_mask, _per_class(data))
    _check_classes(opened, report)
    _check_unlisted(opened, report)
    return report


def _check_drawn(
    name: str, path: str | Path | None, splits: list[str], console: Console | None, options: dict[str, Any]
) -> DatasetCheck:
    """Look at every image of a data set that has no files."""
    report = DatasetCheck()
    for split in splits:
        data = open_dataset(name, path, split, **options)
        report.classes, report.parts = len(data.classes), len(data.parts)
        samples: Iterable[Sample] = data
        if console is not None:
            samples = track(data, f"drawing {split}", len(data), console=console, transient=True)
        with_keypoints = with_mask = 0
        for sample in samples:
            size = sample.image.size
            report._saw(sample.image.mode, size)
            with_keypoints += sample.keypoints is not None
            with_mask += sample.mask is not None
            points = [(part, x, y) for part, places in (sample.keypoints or {}).items() for x, y in places]
            report._take(_outside(sample.name, points, size))
            if sample.mask is not None and sample.mask.shape != size[::-1]:
                what = f"has {sample.mask.shape}, its image {size[::-1]} rows and columns"
                report._add("bad mask", sample.name, what)
        report.splits[split] = SplitCounts(len(data), with_keypoints, with_mask, _per_class(data))
    return report


def _check_images(data: FileDataset, report: DatasetCheck, workers: int, console: Console | None) -> None:
    with ThreadPoolExecutor(max(1, workers)) as pool:
        seen: Iterable[_Seen] = pool.map(_look, data.items)
        if console is not None:
            seen = track(seen, f"reading {data.split}", len(data), console=console, transient=True)
        for image, problems in seen:
            report._take(problems)
            if image is not None:
                report._saw(*image)
    twice = [name for name, times in Counter(item.name for item in data.items).items() if times > 1]
    report.problems += [DatasetProblem("listed twice", name, "the lists mention it more than once") for name in twice]


def _wider(known: tuple[int, int] | None, value: int) -> tuple[int, int]:
    low, high = known or (value, value)
    return min(low, value), max(high, value)


def _look(item: Item) -> _Seen:
    """Read one image with its annotations."""
    if not item.path.exists():
        return None, [DatasetProblem("missing file", str(item.path), "is in the lists but not on disk")]
    try:
        size = read_image(item.path).size
        with Image.open(item.path) as image:
            mode = image.mode
    except ImageError as error:
        return None, [DatasetProblem("unreadable file", str(item.path), error.problem)]
    return (mode, size), list(_annotation_problems(item, size))


def _annotation_problems(item: Item, size: tuple[int, int]) -> Iterator[DatasetProblem]:
    if item.keypoints is not None and not item.keypoints:
        yield DatasetProblem("no visible part", item.name, "none of its parts can be seen", harmless=True)
    yield from _outside(item.name, item.keypoints or (), size)
    if item.box is not None and not _fits(item.box, size):
        what = "{:g} x {:g} at ({:g}, {:g})".format(*item.box[2:], *item.box[:2])
        what, near = f"{what} on {size[0]} x {size[1]} pixels", _fits(item.box, size, *(_edge(side) for side in size))
        yield DatasetProblem("box over the edge" if near else "box outside the image", item.name, what, harmless=near)
    if isinstance(item.mask, Path) and not item.mask.exists():
        yield DatasetProblem("missing mask", item.name, f"there is no {item.mask}")
        return
    try:
        mask = mask_of(item, size)
    except DataError as error:
        yield DatasetProblem("bad mask", item.name, error.problem)
        return
    if mask is not None and not mask.any():
        yield DatasetProblem("bad mask", item.name, "the mask is empty")


def _outside(name: str, keypoints: Iterable[Keypoint], size: tuple[int, int]) -> Iterator[DatasetProblem]:
    for part, x, y in keypoints:
        if not is_inside(x, y, size):
            what = f"{part} at ({x:g}, {y:g}) on {size[0]} x {size[1]} pixels"
            near = all(-_edge(side) <= at <= side + _edge(side) for at, side in zip((x, y), size, strict=True))
            yield DatasetProblem(
                "keypoint over the edge" if near else "keypoint outside the image", name, what, harmless=near
            )


def _edge(side: int) -> float:
    """Return how far an annotation may lie outside of an image and still belong to it: official ones do by a little."""
    return max(1.0, 0.02 * side)


def _fits(box: Box, size: tuple[int, int], across: float = 0, down: float = 0) -> bool:
    """Return whether a box has an area and lies on an image, but for so many pixels across and down."""
    x, y, width, height = box
    inside = -across <= x <= size[0] + across - width and -down <= y <= size[1] + down - height
    return width > 0 and height > 0 and inside


def _per_class(data: Dataset) -> tuple[int, float, int]:
    counts = np.bincount(data.labels(), minlength=len(data.classes)).tolist() or [0]
    return min(counts), float(median(counts)), max(counts)


def _check_classes(opened: list[FileDataset], report: DatasetCheck) -> None:
    if not opened:
        return
    report.classes = max(len(data.classes) for data in opened)
    report.parts = max(len(data.parts) for data in opened)
    for data in opened:
        counts = np.bincount(data.labels(), minlength=len(data.classes))
        for name, count in zip(data.classes, counts.tolist(), strict=True):
            if count == 0:
                report._add("empty class", name, f"has no image in {data.split}")
            elif count == 1:
                report._add("class with one image", name, f"has a single image in {data.split}")


def _check_unlisted(opened: list[FileDataset], report: DatasetCheck) -> None:
    listed = frozenset(name for data in opened for name in data.listing.listed)
    folders = {folder: data.listing.base for data in opened for folder in data.listing.folders}
    for folder, base in folders.items():
        if not folder.is_dir():
            report._add("missing file", folder, "there is no such folder")
            continue
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() not in image_suffixes() or path.name.startswith("."):
                continue
            if path.relative_to(base).as_posix() not in listed:
                report.notes.append(DatasetProblem("file in no list", str(path), "is never read", harmless=True))
