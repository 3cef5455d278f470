"""The contract every data set obeys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.registry import Registry


@dataclass(frozen=True)
class Sample:
    """One image with what is known about it; annotations are on the image's own pixel canvas.

    Attributes
    ----------
    name : str
        Identifies the image within its data set.
    image : PIL.Image.Image
        RGB.
    label : int
        The class.
    keypoints : Mapping[str, Sequence[tuple[float, float]]] or None
        Part -> where it can be seen (left and right merged); None if nobody annotated it.
    mask : numpy.ndarray or None
        ``(height, width)`` bool, where the object is.
    part_masks : Mapping[str, numpy.ndarray]
        Part -> ``(height, width)`` bool; empty where the data set has none.
    """

    name: str
    image: Image.Image
    label: int
    keypoints: Mapping[str, Sequence[tuple[float, float]]] | None = None
    mask: NDArray[np.bool_] | None = None
    part_masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)


class Dataset(ABC):
    """Images of known classes, in a fixed order."""

    #: Names of the classes; the index is the label.
    classes: Sequence[str]
    #: Names of the parts that keypoints tell, left and right merged; empty if there are none.
    parts: Sequence[str] = ()

    @abstractmethod
    def __len__(self) -> int:
        """Return how many images there are."""

    @abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Return one image with its annotations."""

    @abstractmethod
    def label(self, index: int) -> int:
        """Return the class of an image without reading it."""

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def differing_parts(self, first: int, second: int) -> frozenset[str] | None:
        """Return the parts in which two classes truly differ, None if the data set cannot know."""
        return None


DATASETS: Registry[type[Dataset]] = Registry("data set", "partswap.data")
