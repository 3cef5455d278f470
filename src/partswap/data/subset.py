"""Some images of a data set, as a data set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL.Image import Image

from partswap.data.base import Attributes, Dataset, Sample, digest
from partswap.errors import SettingError, suggest

PARTS = ("rest", "validation")


class Subset(Dataset):
    """Some images of another data set, in the order given."""

    def __init__(self, data: Dataset, indices: Sequence[int]) -> None:
        self.data, self.indices = data, list(indices)
        self.classes, self.parts, self.split, self.splits = data.classes, data.parts, data.split, data.splits
        self.needs_path, self.skipped = data.needs_path, data.skipped

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Sample:
        return self.data[self.indices[index]]

    def image(self, index: int) -> Image:
        """Return one image without its annotations."""
        return self.data.image(self.indices[index])

    def label(self, index: int) -> int:
        """Return the class of an image without reading it."""
        return self.data.label(self.indices[index])

    def image_name(self, index: int) -> str:
        """Return the name of an image."""
        return self.data.image_name(self.indices[index])

    def fingerprint(self) -> str:
        """Return a key that changes with the data set and with the choice of images."""
        return digest(self.data.fingerprint(), self.indices)

    def attributes(self) -> Attributes | None:
        """Return the attributes of the classes, None if there are none."""
        return self.data.attributes()

    def differing_parts(self, first: int, second: int) -> frozenset[str] | None:
        """Return the parts in which two classes truly differ, None if the data set cannot know."""
        return self.data.differing_parts(first, second)


def held_out(data: Dataset, *, share: float, seed: int) -> tuple[Subset, Subset]:
    """Return a data set without a share of every class (at least one image of those with two), and that share."""
    rng = np.random.default_rng(seed)
    labels = data.labels()
    out: set[int] = set()
    for c in sorted(set(labels.tolist())):
        mine = np.flatnonzero(labels == c)
        if len(mine) > 1:
            out.update(rng.permutation(mine)[: max(1, round(share * len(mine)))].tolist())
    kept = [i for i in range(len(data)) if i not in out]
    return Subset(data, kept), Subset(data, sorted(out))


def validation_part(data: Dataset, part: str) -> Subset:
    """Return the tenth of every class that is for validation, or the rest: the same images every time."""
    if part not in PARTS:
        fix = suggest(part, PARTS) or f"Use one of {', '.join(f'{data.split}:{p}' for p in PARTS)}."
        raise SettingError(f"a split has no part {part!r}.", fix)
    chosen = held_out(data, share=0.1, seed=0)[PARTS.index(part)]
    chosen.split = f"{data.split}:{part}"
    return chosen
