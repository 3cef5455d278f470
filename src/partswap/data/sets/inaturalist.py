"""iNaturalist 2021 in its official JSON, with keypoints if there are any.

``train.json``, ``train_mini.json`` and ``val.json`` hold ``images``, ``annotations`` and ``categories``; file names
are relative to the folder. Keypoints, which the official release does not have, are read from
``<split>_keypoints.json`` or the file given as `keypoints`, in the COCO layout::

    {"categories":  [{"id": 1, "keypoints": ["beak", "left_eye", ...]}],
     "images":      [{"id": 7, "file_name": "val/.../x.jpg"}],
     "annotations": [{"image_id": 7, "category_id": 1, "keypoints": [x, y, v, x, y, v, ...]}]}

with v = 2 for visible, 1 for hidden and 0 for absent; only visible ones are used. ``id`` and ``category_id`` may
be left out where there is one category.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from partswap.data.base import DATASETS, Archive
from partswap.data.files import FileDataset, Item, Keypoint, Listing
from partswap.data.text import AGAIN, Faults, MalformedError, complain, read_entries, read_json
from partswap.errors import DataError, SettingError, suggest

AWS = "https://ml-inat-competition-datasets.s3.amazonaws.com/2021/"

#: Split -> name of its files.
FILES = {"train": "train", "train_mini": "train_mini", "val": "val", "test": "val"}

#: Of an image or a category; files that are not official may use text.
Id = int | str


class Category(NamedTuple):
    """A species."""

    id: int
    name: str
    common_name: str
    supercategory: str


@DATASETS.register("inaturalist")
class INaturalist(FileDataset):
    """Plants and animals: iNaturalist 2021 or one supercategory.

    Parameters
    ----------
    path : str or Path
        The folder with ``val.json`` and ``val/``.
    split : {"train", "train_mini", "val", "test"}
        "test" is another name for "val": the official test labels are secret.
    supercategory : str, optional
        Such as "Birds" or "Mammals".
    keypoints : str or Path, optional
        A file of keypoints; by default ``<split>_keypoints.json`` if it is there.
    merge_sides, skip_bad, faults
        See `FileDataset`.
    """

    name = "inaturalist"
    splits = tuple(FILES)
    # Without the full training images (224 GB).
    archives = (
        Archive(AWS + "val.json.tar.gz", "val.json", "4d761e0f6a86cc63e8f7afc91f6a8f0b"),
        Archive(AWS + "val.tar.gz", "val", "f6f6e0e242e3d4c9569ba56400938afc"),
        Archive(AWS + "train_mini.json.tar.gz", "train_mini.json", "395a35be3651d86dc3b0d365b8ea5f92"),
        Archive(AWS + "train_mini.tar.gz", "train_mini", "db6ed8330e634445efc8fec83ae81442"),
    )

    def __init__(
        self,
        path: str | Path,
        split: str = "test",
        *,
        supercategory: str | None = None,
        keypoints: str | Path | None = None,
        merge_sides: bool = True,
        skip_bad: bool = False,
        faults: Faults = None,
    ) -> None:
        self.supercategory = supercategory
        self._keypoint_file = None if keypoints is None else Path(keypoints)
        super().__init__(path, split, merge_sides=merge_sides, skip_bad=skip_bad, faults=faults)

    @classmethod
    def disjoint_splits(cls, path: Path) -> list[str]:
        """Return the splits that are there; train_mini is part of train."""
        found = [split for split in ("train", "train_mini", "val") if (path / f"{split}.json").exists()]
        return [split for split in found if split != "train_mini" or "train" not in found] or ["val"]

    def _read(self) -> Listing:
        file = FILES[self.split]
        path, faults = self.root / f"{file}.json", self.faults
        content = _tables(path, read_json(path))
        every = list(read_entries(path, "categories", content["categories"], _category, faults))
        kept = self._kept(every)
        index = {category.id: label for label, category in enumerate(kept)}
        known = {category.id for category in every}
        files = dict(read_entries(path, "images", content["images"], _id_and_file, faults))

        def convert(entry: Any) -> tuple[Id, int]:
            if entry["category_id"] not in known:
                raise MalformedError(f"there is no category {entry['category_id']}")
            return _key(entry["image_id"]), entry["category_id"]

        categories: dict[Id, int] = {}
        for image_id, category in read_entries(path, "annotations", content["annotations"], convert, faults):
            if image_id in files:
                categories[image_id] = category
            else:
                self.orphans.append((str(path), f"image {image_id}"))
        for image_id in (i for i in files if i not in categories):
            complain(DataError(f"{path} has no annotation for image {image_id} ({files[image_id]}).", AGAIN), faults)
        listed = frozenset(files.values())
        names, keypoints = self._keypoints_by_file(listed)
        return Listing(
            items=[
                Item(files[i], self.root / files[i], index[category], keypoints.get(files[i]))
                for i, category in categories.items()
                if category in index
            ],
            classes=_titles(kept),
            keypoints=names,
            listed=listed,
            base=self.root,
            folders=[self.root / file],
        )

    def _kept(self, every: list[Category]) -> list[Category]:
        every = sorted(every)
        if self.supercategory is None:
            return every
        kept = [c for c in every if c.supercategory.casefold() == self.supercategory.casefold()]
        if not kept:
            known = sorted({c.supercategory for c in every})
            near = suggest(self.supercategory.title(), known) or f"Use one of {known}."
            raise SettingError(f"there is no supercategory {self.supercategory!r} in {self.root}.", near)
        return kept

    def _keypoints_by_file(self, listed: frozenset[str]) -> tuple[list[str], dict[str, list[Keypoint]]]:
        path = self._keypoint_file or self.root / f"{FILES[self.split]}_keypoints.json"
        if self._keypoint_file is None and not path.exists():
            return [], {}
        content = _tables(path, read_json(path))
        skeletons = dict(read_entries(path, "categories", content["categories"], _skeleton, self.faults))
        only = next(iter(skeletons)) if len(skeletons) == 1 else None
        files = dict(read_entries(path, "images", content["images"], _id_and_file, self.faults))

        def convert(entry: Any) -> tuple[Id, list[Keypoint]]:
            names = skeletons.get(_key(entry["category_id"]) if only is None else only)
            flat = entry["keypoints"]
            if names is None:
                raise MalformedError(f"there is no category {entry['category_id']}")
            if len(flat) != 3 * len(names):
                raise MalformedError(f"there are {len(flat)} numbers for {len(names)} keypoints, three for each")
            points = zip(names, flat[::3], flat[1::3], flat[2::3], strict=True)
            return _key(entry["image_id"]), [(name, float(x), float(y)) for name, x, y, seen in points if seen == 2]

        found: dict[str, list[Keypoint]] = {}
        for image_id, points in read_entries(path, "annotations", content["annotations"], convert, self.faults):
            file = files.get(image_id)
            if file in listed and file is not None:
                found.setdefault(file, []).extend(points)
            else:
                self.orphans.append((str(path), file or f"image {image_id}"))
        names = list(dict.fromkeys(name for skeleton in skeletons.values() for name in skeleton))
        return names, found


def _tables(path: Path, content: Any) -> dict[str, Any]:
    for key in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or key not in content:
            raise DataError(f"{path} has no {key!r}.", "It should hold images, annotations and categories.")
    return dict(content)


def _category(entry: Any) -> Category:
    fields = (str(entry.get(key) or "") for key in ("common_name", "supercategory"))
    return Category(int(entry["id"]), str(entry["name"]), *fields)


def _key(value: Any) -> Id:
    """Return an id after checking that it can be one."""
    if not isinstance(value, int | str):
        raise MalformedError(f"{value!r} is no id")
    return value


def _id_and_file(entry: Any) -> tuple[Id, str]:
    return _key(entry["id"]), str(entry["file_name"])


def _skeleton(entry: Any) -> tuple[Id, list[str]]:
    return _key(entry.get("id", 0)), [str(name).replace("_", " ") for name in entry["keypoints"]]


def _titles(categories: list[Category]) -> list[str]:
    """Return common names; the scientific one where there is none, both where several species share one."""
    times = Counter(c.common_name for c in categories if c.common_name)
    return [f"{c.common_name} ({c.name})" if times[c.common_name] > 1 else c.common_name or c.name for c in categories]
