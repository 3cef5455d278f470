"""CUB-200-2011: birds with parts, masks and attributes, in the official layout.

::

    images.txt, image_class_labels.txt, train_test_split.txt, classes.txt, bounding_boxes.txt
    images/<class>/<image>.jpg
    parts/parts.txt, parts/part_locs.txt                                             (optional)
    segmentations/<class>/<image>.png, here or beside the folder                    (optional)
    attributes/class_attribute_labels_continuous.txt                                (optional)
    attributes/attributes.txt, or attributes.txt beside the folder                  (optional)
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from partswap.data.attribute_parts import PartDifferences, attribute_meaning
from partswap.data.base import DATASETS, Archive, Attributes
from partswap.data.files import Box, FileDataset, Item, Keypoint, Listing, class_title
from partswap.data.text import AGAIN, MalformedError, complain, id_and_rest, read_rows
from partswap.errors import DataError

CALTECH = "https://data.caltech.edu/records/"


@DATASETS.register("cub")
class Cub(FileDataset):
    """Birds with parts, masks and attributes: CUB-200-2011 or any subset.

    Class ids may have gaps; labels are 0, 1, ... in the order of the ids.

    Parameters
    ----------
    path : str or Path
        The folder with ``images.txt``, or the one that holds ``CUB_200_2011``.
    split : {"train", "test", "all"}
        By the official split.
    merge_sides, skip_bad, faults
        See `FileDataset`.
    """

    name = "cub"
    splits = ("train", "test", "all")
    archives = (
        Archive(CALTECH + "65de6-vp158/files/CUB_200_2011.tgz", "CUB_200_2011", "97eceeb196236b17998738112f37df78"),
        Archive(CALTECH + "w9d68-gec53/files/segmentations.tgz", "segmentations", "4d47ba1228eae64f2fa547c47bc65255"),
    )

    @classmethod
    def find_root(cls, path: Path) -> Path:
        """Return the folder with ``images.txt``."""
        path = super().find_root(path)
        return next((p for p in (path, path / "CUB_200_2011") if (p / "images.txt").exists()), path)

    def _read(self) -> Listing:
        root, faults = self.root, self.faults
        files = dict(read_rows(root / "images.txt", id_and_rest, "an id and a path", faults))
        names = dict(sorted(read_rows(root / "classes.txt", id_and_rest, "an id and a class", faults)))
        self._class_ids = list(names)
        index = {class_id: label for label, class_id in enumerate(names)}
        labels = self._known("image_class_labels.txt", files, index)
        is_train = self._known("train_test_split.txt", files, {0: 0, 1: 1})
        keypoint_names, keypoints = self._keypoints_by_image(files)
        boxes = self._boxes_by_image(files)
        masks = next((p for p in (root / "segmentations", root.parent / "segmentations") if p.is_dir()), None)
        items = []
        for image_id, file in files.items():
            if image_id not in labels or image_id not in is_train:
                lacking = "image_class_labels.txt" if image_id not in labels else "train_test_split.txt"
                complain(DataError(f"{root / lacking} has no line for image {image_id} ({file}).", AGAIN), faults)
                continue
            if self.split == "all" or (self.split == "train") == bool(is_train[image_id]):
                mask = None if masks is None else (masks / file).with_suffix(".png")
                found = keypoints.get(image_id), mask, boxes.get(image_id)
                items.append(Item(file, root / "images" / file, labels[image_id], *found))
        return Listing(
            items=items,
            classes=[class_title(name) for name in names.values()],
            keypoints=keypoint_names,
            listed=frozenset(files.values()),
            base=root / "images",
            folders=[root / "images"],
        )

    def _known(self, file: str, images: dict[int, str], values: dict[int, int]) -> dict[int, int]:
        """Return image id -> value for a file of two ids, the second being a key of `values`."""

        def convert(line: str) -> tuple[int, int]:
            image_id, key = map(int, line.split())
            if key not in values:
                raise MalformedError(f"there is no {'class' if 'class' in file else 'split'} {key}")
            return image_id, values[key]

        rows = read_rows(self.root / file, convert, "two ids", self.faults)
        return {image_id: value for image_id, value in rows if self._is_listed(image_id, images, file)}

    def _is_listed(self, image_id: int, images: dict[int, str], file: str) -> bool:
        if image_id not in images:
            self.orphans.append((str(self.root / file), f"image {image_id}"))
        return image_id in images

    def _keypoints_by_image(self, images: dict[int, str]) -> tuple[list[str], dict[int, list[Keypoint]]]:
        folder = self.root / "parts"
        if not (folder / "part_locs.txt").exists():
            return [], {}
        names = dict(read_rows(folder / "parts.txt", id_and_rest, "an id and a part", self.faults))

        def convert(line: str) -> tuple[int, str, float, float, bool]:
            image_id, part, x, y, visible = line.split()
            if int(part) not in names:
                raise MalformedError(f"there is no part {part} in parts.txt")
            if visible not in ("0", "1"):
                raise MalformedError(f"whether a part is visible is 0 or 1, not {visible}")
            return int(image_id), names[int(part)], float(x), float(y), visible == "1"

        found: dict[int, list[Keypoint]] = {}
        orphans: set[int] = set()
        rows = read_rows(folder / "part_locs.txt", convert, "image id, part id, x, y, visible", self.faults)
        for image_id, part, x, y, visible in rows:
            if image_id not in images:
                orphans.add(image_id)
                continue
            points = found.setdefault(image_id, [])
            if visible:
                points.append((part, x, y))
        for image_id in sorted(orphans):  # one complaint per image, not per part
            self._is_listed(image_id, images, "parts/part_locs.txt")
        return list(names.values()), found

    def _boxes_by_image(self, images: dict[int, str]) -> dict[int, Box]:
        def convert(line: str) -> tuple[int, Box]:
            image_id, x, y, width, height = line.split()
            return int(image_id), (float(x), float(y), float(width), float(height))

        if not (self.root / "bounding_boxes.txt").exists():
            return {}
        rows = read_rows(self.root / "bounding_boxes.txt", convert, "image id, x, y, width, height", self.faults)
        return {i: box for i, box in rows if self._is_listed(i, images, "bounding_boxes.txt")}

    def attributes(self) -> Attributes | None:
        """Return which share of a class's images have an attribute, None if the files are not there."""
        table = self._attribute_table
        if not table.exists():
            return None
        width: list[int] = []

        def convert(line: str) -> list[float]:
            row = [float(value) for value in line.split()]
            width[:] = width or [len(row)]
            if len(row) != width[0]:
                raise MalformedError(f"there are {len(row)} values, but {width[0]} in the first line")
            wrong = [value for value in row if not 0 <= value <= 100]
            if wrong:
                raise MalformedError(f"{wrong[0]:g} is no percentage")
            return row

        rows = list(read_rows(table, convert, "percentages", None))
        last = max(self._class_ids, default=0)
        if len(rows) < max(last, 1):
            raise DataError(f"{table} has {len(rows)} rows, but there is a class {last}.", AGAIN)
        share = np.array([rows[class_id - 1] for class_id in self._class_ids], np.float64) / 100
        names = self._attribute_names(share.shape[1])
        return Attributes(names, share, [attribute_meaning(name) for name in names])

    def check_tables(self) -> None:
        """Raise an error if the table of attributes is broken, or missing where there is a folder for it."""
        if self.attributes() is None and self._attribute_table.parent.is_dir():
            raise DataError(f"there is no {self._attribute_table}.", AGAIN)

    @property
    def _attribute_table(self) -> Path:
        return self.root / "attributes" / "class_attribute_labels_continuous.txt"

    def differing_parts(self, first: int, second: int) -> frozenset[str] | None:
        """Return the parts in which two classes differ by their attributes, None without named attributes or parts."""
        return None if self._differences is None else self._differences(first, second)

    @cached_property
    def _differences(self) -> PartDifferences | None:
        attributes = self.attributes()
        found = attributes and PartDifferences(attributes, self.parts)
        return found if found and found.columns else None

    def _attribute_names(self, count: int) -> list[str]:
        for path in (self.root / "attributes" / "attributes.txt", self.root.parent / "attributes.txt"):
            if path.exists():
                names = [name for _, name in read_rows(path, id_and_rest, "an id and an attribute", None)]
                if len(names) != count:
                    raise DataError(f"{path} names {len(names)} attributes, the table has {count}.", AGAIN)
                return names
        return [f"attribute {i + 1}" for i in range(count)]
