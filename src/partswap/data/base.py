"""The contract every data set obeys."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.errors import SettingError, suggest
from partswap.utils.options import check_options
from partswap.utils.registry import Registry


@dataclass(frozen=True)
class Sample:
    """One image with what is known about it; annotations are on the image's own pixel canvas."""

    name: str  #: Identifies the image within its data set.
    image: Image.Image  #: RGB.
    label: int  #: The class.
    #: Part -> where it can be seen; None if the image is not annotated.
    keypoints: Mapping[str, Sequence[tuple[float, float]]] | None = None
    mask: NDArray[np.bool_] | None = None  #: ``(height, width)`` bool, where the object is.
    #: Part -> ``(height, width)`` bool; empty where the data set has none.
    part_masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    class_name: str = ""  #: What the data set calls the class; a model may number its classes otherwise.


class Meaning(NamedTuple):
    """What an attribute says, as in ("wing", "wing colour", "black")."""

    part: str | None  #: The part it is about, left and right as one; None: the whole object, or nobody said which.
    kind: str  #: The property.
    value: str  #: Its value.


@dataclass(frozen=True)
class Attributes:
    """Attributes of classes as a whole."""

    names: Sequence[str]  #: Of the attributes.
    #: ``(classes, attributes)``: the share of a class's images that have the attribute, 0 to 1.
    share: NDArray[np.float64]
    meanings: Sequence[Meaning] = ()  #: What each of them says, if that is known.

    def present(self) -> NDArray[np.bool_]:
        """Return which class has which attribute: those that more than half of its images have."""
        return np.asarray(self.share > 0.5)


@dataclass(frozen=True)
class Archive:
    """An official archive of a data set."""

    url: str
    makes: str  #: What lies in the folder once it is unpacked.
    md5: str | None = None  #: Its checksum, if it is known.

    @property
    def file(self) -> str:
        """Its file name."""
        return self.url.rpartition("/")[2]


class Dataset(ABC):
    """Images of known classes, in a fixed order.

    A subclass takes ``(path, split, ...)`` if it reads files and ``(split, ...)`` if it does not; `open_dataset`
    tells them apart by `needs_path`.
    """

    #: Names of the classes; the index is the label.
    classes: Sequence[str]
    #: Names of the parts that keypoints tell; empty if there are none.
    parts: Sequence[str] = ()
    #: Which images these are.
    split: str
    #: Allowed values of `split`.
    splits: Sequence[str] = ("train", "test")
    #: Whether it is read from a folder.
    needs_path: bool = True
    #: Where to download it, in the order to unpack; empty if there is nothing official.
    archives: Sequence[Archive] = ()
    #: Images that cannot be read and were left out: (name, reason).
    skipped: Sequence[tuple[str, str]] = ()

    @abstractmethod
    def __len__(self) -> int:
        """Return how many images there are."""

    @abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Return one image with its annotations."""

    @abstractmethod
    def label(self, index: int) -> int:
        """Return the class of an image without reading it."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return the key of what is cached: it changes whenever an image or its label may have changed."""

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def image(self, index: int) -> Image.Image:
        """Return one image without its annotations."""
        return self[index].image

    def image_name(self, index: int) -> str:
        """Return the name of an image; override it where that needs no reading."""
        return self[index].name

    def labels(self) -> NDArray[np.int64]:
        """Return the classes of all images."""
        return np.array([self.label(i) for i in range(len(self))], np.int64)

    def attributes(self) -> Attributes | None:
        """Return the attributes of the classes, None if there are none."""
        return None

    def unread(self) -> str:
        """Return which files beside the images are not read as images, in words; empty where that is not known."""
        return ""

    def differing_parts(self, first: int, second: int) -> frozenset[str] | None:
        """Return the parts in which two classes truly differ, None if the data set cannot know."""
        return None


DATASETS: Registry[type[Dataset]] = Registry("data set", "partswap.data.sets")


def open_dataset(name: str, path: str | Path | None = None, split: str = "test", **options: Any) -> Dataset:
    """Return a registered data set.

    Parameters
    ----------
    name : str
        ``"cub"``, ``"dogs"``, ``"inaturalist"``, ``"folder"``, ``"aviary"``, ...
    path : str or Path, optional
        Its folder; the aviary is drawn and has none.
    split : str
        Which images; ``"train:validation"`` is a tenth of every class of "train", ``"train:rest"`` the others.
    **options
        Other parameters of the data set.
    """
    if path is not None and (not isinstance(path, str | PathLike) or "\0" in str(path)):
        raise SettingError(f"the path of the data set is {path!r}.", "Give a folder.")
    kind = DATASETS.get(name)
    if kind.needs_path != (path is not None):
        raise SettingError(
            f"the data set {name} {'is read from a folder' if kind.needs_path else 'is not read from files'}.",
            "Pass its path." if kind.needs_path else "Leave the path out.",
        )
    # A list of faults comes from code that collects them, never from a user's options.
    plain = {option: value for option, value in options.items() if not (option == "faults" and isinstance(value, list))}
    options |= check_options(kind, plain, what=f"the data set {name}", reserved=("path", "split", "faults"))
    whole, colon, part = split.partition(":")
    if colon:
        from partswap.data.subset import validation_part

        return validation_part(open_dataset(name, path, whole, **options), part)
    return kind(split, **options) if path is None else kind(path, split, **options)  # type: ignore[call-arg]


def check_split(name: str, split: str, splits: Sequence[str]) -> None:
    """Raise an error that suggests the nearest split if there is none called `split`."""
    if split not in splits:
        raise SettingError(f"{name} has no split {split!r}.", suggest(split, splits) or f"Use one of {list(splits)}.")


def digest(*facts: object) -> str:
    """Return a short fingerprint of some facts."""
    return hashlib.blake2b(repr(facts).encode(), digest_size=12).hexdigest()
