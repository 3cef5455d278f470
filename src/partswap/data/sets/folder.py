"""Any folder of class folders."""

from __future__ import annotations

import hashlib
from pathlib import Path

from partswap.data.attribute_table import read_attributes
from partswap.data.base import DATASETS, Attributes
from partswap.data.files import FileDataset, Item, Listing, class_title
from partswap.data.text import Faults
from partswap.errors import DataError, SettingError
from partswap.inputs.images import image_suffixes, unread_text

#: Subfolders that are splits rather than classes.
SPLIT_FOLDERS = ("train", "val", "test")


@DATASETS.register("folder")
class Folder(FileDataset):
    """Images in class folders, without annotations.

    Where the folder holds ``train`` and ``test`` or ``val``, the split picks one ("test" is ``val`` if there is no
    ``test``). Where it does not, a hash of each file's name says which split the image is in: a new file moves no
    other.

    Parameters
    ----------
    path : str or Path
        The folder.
    split : {"train", "val", "test", "all"}
        Which images; "val" needs such a folder.
    test_share : float
        The share of each class that is for testing, on average, where there are no split folders.
    seed : int
        Another seed, another split.
    attributes : str or Path, optional
        A table of what the classes have (see `partswap.data.attribute_table`); by default ``attributes.csv`` in the
        folder, if it is there.
    merge_sides, skip_bad, faults
        See `FileDataset`.
    """

    name = "folder"
    upright = True
    splits = (*SPLIT_FOLDERS, "all")

    def __init__(
        self,
        path: str | Path,
        split: str = "test",
        *,
        test_share: float = 0.3,
        seed: int = 0,
        attributes: str | Path | None = None,
        merge_sides: bool = True,
        skip_bad: bool = False,
        faults: Faults = None,
    ) -> None:
        if not 0 < test_share < 1:
            raise SettingError(f"test_share is {test_share}.", "Use a share between 0 and 1.")
        self.test_share, self.seed, self._table = test_share, seed, attributes
        super().__init__(path, split, merge_sides=merge_sides, skip_bad=skip_bad, faults=faults)

    @classmethod
    def disjoint_splits(cls, path: Path) -> list[str]:
        """Return the splits that have a folder, or "all"."""
        return [folder.name for folder in _split_folders(path)] or ["all"]

    def _read(self) -> Listing:
        split_folders = _split_folders(self.root)
        bases = split_folders or [self.root]
        folders = sorted({folder.name for base in bases for folder in _subfolders(base)})
        if not folders:
            fix = "Put the images of each class into a folder of its own."
            raise DataError(f"{self.root} holds no class folders.", fix)
        wanted = self.split
        if split_folders and wanted == "test" and all(folder.name != "test" for folder in split_folders):
            wanted = "val"
        titles = [class_title(folder) for folder in folders]
        every, items = [], []
        for label, folder in enumerate(folders):
            for base in bases:
                for file in _images(base / folder):
                    name = file.relative_to(self.root).as_posix()
                    every.append(name)
                    split = base.name if split_folders else self._split_of(name)
                    if wanted in (split, "all"):
                        items.append(Item(name, file, label))
        return Listing(
            items=items,
            classes=titles if len(set(titles)) == len(titles) else folders,
            listed=frozenset(every),
            base=self.root,
            folders=bases,
        )

    def attributes(self) -> Attributes | None:
        """Return what the classes have, by the table; None if there is none."""
        usual = self.root / "attributes.csv"
        table = Path(self._table) if self._table is not None else usual if usual.exists() else None
        return None if table is None else read_attributes(table, self.classes)

    def unread(self) -> str:
        """Return which files in the class folders are not read as images, in words."""
        return unread_text(self.listing.folders)

    def _split_of(self, name: str) -> str:
        number = int.from_bytes(hashlib.blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest(), "big")
        return "test" if number < self.test_share * 2**64 else "train"


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _split_folders(root: Path) -> list[Path]:
    """Return the split folders, if there is one for training and another, or nothing else."""
    folders = _subfolders(root) if root.is_dir() else []
    names = {folder.name for folder in folders}
    found = [root / name for name in SPLIT_FOLDERS if name in names]
    return found if len(found) == len(folders) or ("train" in names and len(found) > 1) else []


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    files = (path for path in folder.rglob("*") if path.suffix.lower() in image_suffixes() and path.is_file())
    return sorted(p for p in files if not any(part.startswith(".") for part in p.relative_to(folder).parts))
