"""The parts of a counterfactual: its edits, what the model says after each, the pixel check, and its pictures."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from partswap.errors import SettingError
from partswap.grid import GridShape
from partswap.inputs.frame import PixelBox

if TYPE_CHECKING:
    from PIL.Image import Image

    from partswap.inputs.images import ImageLike
    from partswap.inputs.preprocess import Preprocess


@dataclass(frozen=True)
class Edit:
    """One swap: the query's cell looks like the distractor's cell from now on.

    The boxes are ``(left, top, right, bottom)`` in pixels of the image as it was passed (turned upright as its camera
    says), counted from its top left corner; fractions of pixels occur. ``image.crop(edit.query_box)`` is the region.
    A `Counterfactual` fills them in; they are None if the images are unknown, or were warped by a transform of yours.
    """

    query_cell: int  #: flat index, ``row * w + col``
    distractor_cell: int  #: flat index over all distractors, ``image * h * w + row * w + col``
    distractor_image: int  #: which distractor the cell is from
    query_box: PixelBox | None = field(default=None, compare=False, repr=False)  #: of the cell, in the query
    distractor_box: PixelBox | None = field(default=None, compare=False, repr=False)  #: likewise, in the distractor
    cells: int | None = field(default=None, compare=False, repr=False)  #: of one image

    @classmethod
    def of(cls, query_cell: int, distractor_cell: int, grid: GridShape) -> Edit:
        """Return the edit of two flat indices."""
        return cls(query_cell, distractor_cell, grid.split(distractor_cell)[0], cells=grid.cells)

    @property
    def image_cell(self) -> int:
        """Flat index of the distractor's cell within its own image, ``row * w + col``."""
        if self.cells is None:
            raise SettingError("this edit is of no counterfactual.", "Ask those of Counterfactual.edits.")
        return self.distractor_cell - self.distractor_image * self.cells


@dataclass(frozen=True)
class Step:
    """What the model says at one moment: of the unedited query, or after an edit."""

    target_probability: float
    predicted: int  #: the class the model says
    objective: float | None = None  #: what the search maximized; None before the first edit
    #: Probability of the class that the model said before the first edit; None in files of schema version 1.
    original_class_probability: float | None = field(default=None, compare=False)

    @property
    def probability(self) -> float:
        """Former name of `target_probability`."""
        warnings.warn("Step.probability is called target_probability.", DeprecationWarning, stacklevel=2)
        return self.target_probability

    @property
    def own(self) -> float | None:
        """Former name of `original_class_probability`."""
        warnings.warn("Step.own is called original_class_probability.", DeprecationWarning, stacklevel=2)
        return self.original_class_probability


@dataclass(frozen=True)
class PixelCheck:
    """What the whole network says of the query with the regions of all edits pasted in, in pixels."""

    before: float  #: probability of the target, of the query as it is
    after: float  #: of the composite
    predicted: int  #: the class the network says of the composite
    flipped: bool  #: whether that is the target

    def __bool__(self) -> bool:
        return self.flipped


@dataclass(frozen=True)
class Pictures:
    """The images a counterfactual is about, for drawing only."""

    query: Image  #: the part that the model saw
    distractors: Sequence[Image]  #: likewise
    sources: Sequence[ImageLike] = ()  #: the query and the distractors as they were passed, to be read again
    preprocess: Preprocess | None = None  #: how they became the model's inputs, if that is known
