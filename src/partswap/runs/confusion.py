"""The mistakes a model makes on a split: which class it takes for which, and how often.

A run explains an image that is right towards the *nearest class*, whether the model ever takes the one for the other or
not. What it truly takes for what is counted here, over the whole split, and kept in the run's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from partswap.errors import FileFormatError
from partswap.utils.files import read_json

#: The file in a run's folder.
CONFUSION = "confusion.json"


class Mistake(NamedTuple):
    """How many images of the class `true` the model takes for the class `predicted`."""

    true: int
    predicted: int
    images: int


@dataclass(frozen=True)
class Confusion:
    """The confusion matrix of a model on a split, without the zeros."""

    classes: tuple[str, ...]
    images: tuple[int, ...]  #: images of each class
    mistakes: tuple[Mistake, ...]  #: the most frequent first

    @classmethod
    def of(cls, logits: Tensor, labels: NDArray[np.int64], classes: Sequence[str]) -> Confusion:
        """Count from the logits ``(n, classes)`` and the labels ``(n,)`` of a split."""
        predicted = logits.argmax(1).cpu().numpy()
        wrong = predicted != labels
        pairs, counts = np.unique(np.stack([labels[wrong], predicted[wrong]], 1), axis=0, return_counts=True)
        mistakes = [Mistake(int(t), int(p), int(n)) for (t, p), n in zip(pairs, counts, strict=True)]
        images = np.bincount(labels, minlength=len(classes)).tolist()
        return cls(tuple(map(str, classes)), tuple(images), tuple(sorted(mistakes, key=lambda m: -m.images)))

    @property
    def total(self) -> int:
        """How many images the split has."""
        return sum(self.images)

    @property
    def wrong(self) -> int:
        """How many images the model gets wrong."""
        return sum(mistake.images for mistake in self.mistakes)

    def record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "classes": list(self.classes),
            "images": list(self.images),
            "mistakes": [mistake._asdict() for mistake in self.mistakes],
        }


def read_confusion(path: Path) -> Confusion | None:
    """Return what `Confusion.record` says in a file, None if there is no file (runs of earlier versions have none)."""
    if not path.exists():
        return None
    record = read_json(path)
    try:
        mistakes = tuple(Mistake(**mistake) for mistake in record["mistakes"])
        return Confusion(tuple(record["classes"]), tuple(record["images"]), mistakes)
    except (TypeError, KeyError) as error:
        raise FileFormatError(
            f"{path} holds no confusion counts.", "Delete it and run again: it is made anew."
        ) from error
