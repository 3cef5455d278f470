"""Stanford Dogs with the keypoints (and masks) of StanfordExtra.

::

    Images/<n02099601-golden_retriever>/<image>.jpg
    train_list.mat, test_list.mat (or .txt, a path a line), here or in lists/
    StanfordExtra_v12.json or any one StanfordExtra*.json, here or in StanfordExtra_V12/     (optional)
    keypoint_definitions.csv, which names the keypoints                                      (optional)
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any, NamedTuple

from partswap.data.base import DATASETS, Archive
from partswap.data.files import FileDataset, Item, Keypoint, Listing, class_title
from partswap.data.rle import RunLengths
from partswap.data.text import AGAIN, MalformedError, complain, read_entries, read_json, read_rows, read_text
from partswap.errors import DataError

STANFORD = "http://vision.stanford.edu/aditya86/ImageNetDogs/"

#: Keypoints of StanfordExtra, in the order of ``joints``.
KEYPOINTS = (
    *(f"{side} {leg} {joint}" for side in ("left", "right") for leg in ("front", "rear")
      for joint in ("paw", "leg middle joint", "leg top")),
    "tail start", "tail end", "left ear base", "right ear base", "nose", "chin", "left ear tip", "right ear tip",
    "left eye", "right eye", "withers", "throat",
)  # fmt: skip


class Entry(NamedTuple):
    """An image in a list; the label is official if the list has one."""

    file: str
    label: int | None


class Annotation(NamedTuple):
    """What StanfordExtra says about an image."""

    file: str
    keypoints: list[Keypoint]
    mask: RunLengths | None


@DATASETS.register("dogs")
class Dogs(FileDataset):
    """Dogs with parts: Stanford Dogs and StanfordExtra.

    Classes are in the order of their folders' names, which is that of the official labels; so whichever kind of
    lists there is, a class has the same label. Images that StanfordExtra leaves out have no keypoints.

    Parameters
    ----------
    path : str or Path
        The folder that holds ``Images``.
    split : {"train", "test", "all"}
        By the official lists.
    merge_sides, skip_bad, faults
        See `FileDataset`. Front and rear stay apart.
    """

    name = "dogs"
    splits = ("train", "test", "all")
    archives = (
        Archive(STANFORD + "images.tar", "Images", "1bb1f2a596ae7057f99d7d75860002ef"),
        Archive(STANFORD + "lists.tar", "train_list.mat", "edbb9f16854ec66506b5f09b583e0656"),
    )

    def _read(self) -> Listing:
        lists = {split: self._list(split) for split in ("train", "test")}
        wanted = [*lists] if self.split == "all" else [self.split]
        if all(lists[split] is None for split in wanted):
            fix = "Unpack lists.tar into the folder, or write a text file with an image path a line."
            raise DataError(f"{self.root} has no {wanted[0]}_list.mat or .txt.", fix)
        entries = [entry for known in lists.values() for entry in known or []]
        folders = self._class_folders(entries)
        index = {folder: label for label, folder in enumerate(folders)}
        annotations = {a.file: a for a in self._annotations()}
        items = []
        for file, _ in (entry for split in wanted for entry in lists[split] or []):
            known = annotations.get(file)
            label = index[file.partition("/")[0]]
            keypoints, mask = (known.keypoints, known.mask) if known else (None, None)
            items.append(Item(file, self.root / "Images" / file, label, keypoints, mask))
        listed = frozenset(entry.file for entry in entries)
        self.orphans += [(str(self._annotation_file()), file) for file in annotations if file not in listed]
        seen = {name for a in annotations.values() for name, _, _ in a.keypoints}
        return Listing(
            items=items,
            classes=[class_title(folder.partition("-")[2] or folder) for folder in folders],
            keypoints=[name for name in self._names() if name in seen],  # four are defined but never annotated
            listed=listed,
            base=self.root / "Images",
            folders=[self.root / "Images"],
        )

    def _list(self, split: str) -> list[Entry] | None:
        """Return the entries of a split's list, None if there is no list."""
        for folder in (self.root, self.root / "lists"):
            for suffix in (".mat", ".txt"):
                path = folder / f"{split}_list{suffix}"
                if path.exists():
                    return _read_mat(path) if suffix == ".mat" else self._read_list(path)
        return None

    def _read_list(self, path: Path) -> list[Entry]:
        def convert(line: str) -> Entry:
            folder, _, file = line.strip().partition("/")
            if not folder or not file:
                raise ValueError
            return Entry(f"{folder}/{file}", None)

        return list(read_rows(path, convert, "a path like n02099601-golden_retriever/n02099601_1.jpg", self.faults))

    def _class_folders(self, entries: list[Entry]) -> list[str]:
        """Return the class folders in the order of their names; all images of one must have the same label."""
        order: dict[str, int | None] = {}
        for file, label in entries:
            folder = file.partition("/")[0]
            known = order.get(folder)
            if known is None:
                order[folder] = label
            elif label is not None and label != known:
                problem = f"the lists in {self.root} give {file} the label {label}, others in its folder {known}."
                complain(DataError(problem, AGAIN), self.faults)
        return sorted(order)

    def _annotation_file(self) -> Path | None:
        folders = (self.root, self.root / "StanfordExtra_V12", self.root / "StanfordExtra_v12")
        found = [path for folder in folders for path in sorted(folder.glob("StanfordExtra*.json"))]
        official = [path for path in found if path.name.lower() == "stanfordextra_v12.json"]
        if not official and len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise DataError(f"{self.root} holds several annotation files ({names}).", "Keep one of them.")
        return next(iter(official or found), None)

    def _annotations(self) -> list[Annotation]:
        path = self._annotation_file()
        if path is None:
            return []
        names = self._names()

        def convert(entry: Any) -> Annotation:
            joints = entry["joints"]
            if len(joints) > len(names):
                raise MalformedError(f"there are {len(joints)} joints, but {len(names)} names")
            points = [(n, float(j[0]), float(j[1])) for n, j in zip(names, joints, strict=False) if j[2] > 0]
            return Annotation(str(entry["img_path"]), points, _mask(entry))

        return list(read_entries(path, "", read_json(path), convert, self.faults))

    def _names(self) -> list[str]:
        path = self.root / "keypoint_definitions.csv"
        if not path.exists():
            return list(KEYPOINTS)
        rows = list(csv.DictReader(read_text(path).splitlines()))
        if not rows or "Name" not in rows[0]:
            raise DataError(f"{path} line 1: there is no column called Name.", AGAIN)
        return [nice_name(row["Name"] or "") for row in rows]


def nice_name(name: str) -> str:
    """Return a keypoint's name with its side first: "Left front leg: paw" is "left front paw"."""
    name = name.lower().strip()
    name = re.sub(r"^base of (left|right) (.*)$", r"\1 \2 base", name)
    return name.replace(" leg: paw", " paw").replace(":", "")


def _mask(entry: Any) -> RunLengths | None:
    mask = entry.get("seg")
    if not mask:
        return None
    if isinstance(mask, dict):
        height, width = mask["size"]
        return RunLengths(int(height), int(width), mask["counts"])
    return RunLengths(int(entry["img_height"]), int(entry["img_width"]), mask)


def _read_mat(path: Path) -> list[Entry]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        table = loadmat(path)
        files = [str(cell.item()) for cell in table["file_list"].ravel()]
        labels = [int(label) for label in table["labels"].ravel()] if "labels" in table else [None] * len(files)
        return [Entry(file, label) for file, label in zip(files, labels, strict=True)]
    except (OSError, KeyError, ValueError, TypeError, AttributeError, NotImplementedError, MatReadError) as error:
        raise DataError(f"{path} is not a list of Stanford Dogs ({error}).", AGAIN) from error
