"""The result: which cells were swapped for which, and what the model said after each swap.

A `Counterfactual` is what searches return, metrics read, figures draw, studies show and files hold. It is plain data;
pictures can ride along (`with_images`) but are never saved.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from partswap.errors import SettingError, ShapeError
from partswap.grid import GridShape
from partswap.results.edits import Edit, Pictures, PixelCheck, Step
from partswap.results.files import counterfactual_dict, counterfactual_of, read_counterfactual
from partswap.results.images import frame_of, image_files, located_edit, picture_of_image
from partswap.results.operations import operation
from partswap.results.provenance import Provenance
from partswap.results.text import counterfactual_text, pixel_text
from partswap.results.verification import Verification
from partswap.results.words import Words
from partswap.utils.files import write_text

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from PIL.Image import Image

    from partswap.inputs.images import ImageLike

__all__ = ["Counterfactual", "Edit", "Pictures", "PixelCheck", "Step"]


@dataclass(frozen=True)
class Counterfactual:
    """An ordered list of edits that makes the model say another class.

    Attributes
    ----------
    query_class, target : int
        What the model says of the query, and what it should say.
    grid : GridShape
        Cells of the query and of every distractor.
    distractors : int
        How many distractors there were to choose from.
    edits : tuple of Edit
        In the order they were found.
    before, trace : Step, tuple of Step
        What the model says of the unedited query, and after every edit.
    flipped : bool
        Whether it says the target in the end.
    method, settings : str, Mapping[str, Any]
        Name and settings of the method that found it.
    source : Provenance
        Where it came from: names of the query and the distractors, class names, model, layer, auxiliary, version. It
        may be passed as the mapping that a file holds.
    evaluations, seconds : int, float
        How many edited grids the head was evaluated on, and how long the search took.
    words : Words or None
        What it says in words, if that was asked for.
    pixel : PixelCheck or None
        What the whole network says of the edits in pixels, if that was asked for.

    Examples
    --------
    >>> cf = Counterfactual(
    ...     query_class=3, target=5, grid=GridShape(7, 7), distractors=2,
    ...     edits=(Edit(10, 60, 1),), before=Step(0.1, 3), trace=(Step(0.8, 5, -0.2),), flipped=True,
    ... )
    >>> print(cf)
    Counterfactual: class 3 -> class 5 in 1 edit (target probability 0.10 -> 0.80)
      1. query (row 2, column 4) -> distractor 1 (row 2, column 5)   p = 0.80
         the model now says class 5
    """

    query_class: int
    target: int
    grid: GridShape
    distractors: int
    edits: tuple[Edit, ...]
    before: Step
    trace: tuple[Step, ...]
    flipped: bool
    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    source: Provenance = field(default_factory=Provenance, hash=False)
    evaluations: int = 0
    seconds: float = field(default=0.0, compare=False)  # two searches that find the same are equal
    words: Words | None = None
    pixel: PixelCheck | None = None
    pictures: Pictures | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", Provenance.of(self.source))
        if len(self.edits) != len(self.trace):
            problem = f"{len(self.edits)} edits but {len(self.trace)} steps in the trace."
            raise SettingError(problem, "Give one step per edit.")
        if self.grid.cells < 1 or self.distractors < 1:
            raise SettingError(f"{self.grid} grid, {self.distractors} distractors.", "Both must be at least 1.")
        for edit in self.edits:
            ok = 0 <= edit.query_cell < self.grid.cells
            ok &= 0 <= edit.distractor_cell < self.grid.cells * self.distractors
            ok &= edit.distractor_image == self.grid.split(edit.distractor_cell)[0]
            if not ok:
                raise SettingError(
                    f"{edit} does not fit a {self.grid} grid with {self.distractors} distractors.",
                    "Cells are flat indices: row * w + col, plus image * h * w for distractors.",
                )
        frames = [frame_of(self, k) for k in range(-1, self.distractors)] if self.edits else []
        object.__setattr__(self, "edits", tuple(located_edit(edit, self.grid, frames) for edit in self.edits))

    def __len__(self) -> int:
        return len(self.edits)

    @property
    def probability(self) -> float:
        """Probability of the target after all edits."""
        return (self.trace[-1] if self.trace else self.before).target_probability

    def class_name(self, index: int) -> str:
        """Return the name of a class if it is known, else ``class 7``."""
        return self.source.class_names.get(index, f"class {index}")

    @property
    def flip(self) -> int | None:
        """Number of the edit (from 1) from which on the model says the target, None if it does not."""
        if not self.flipped:
            return None
        others = [n for n, step in enumerate(self.trace, 1) if step.predicted != self.target]
        return min(others[-1] + 1 if others else 1, len(self))

    @property
    def lacks_auxiliary(self) -> bool:
        """Whether the method has a semantic term that was left out, because there was no auxiliary."""
        return self.settings.get("semantic") is False and float(self.settings.get("lam") or 0) > 0

    @property
    def title(self) -> str:
        """The method that found it, in words; a semantic term that was left out for want of an auxiliary is said."""
        return f"{self.method} without its semantic term (no auxiliary)" if self.lacks_auxiliary else self.method

    def distractor_name(self, image: int) -> str:
        """Return the file name of a distractor if it is known, otherwise its number, counted from 1."""
        names = self.source.distractors
        name = Path(names[image]).name if image < len(names) and names[image] else ""
        return name if name and not name.isdecimal() else f"distractor {self.distractor_number(image)}"

    def distractor_number(self, image: int) -> int:
        """Return the number of a distractor for people, from 1: in the order edits use them, then the others'."""
        used = dict.fromkeys(edit.distractor_image for edit in self.edits)
        order = [*used, *(k for k in range(self.distractors) if k not in used)]
        return order.index(image) + 1

    def distractor_class(self, image: int) -> int:
        """Return what the model says of a distractor: the target, unless others were asked for."""
        classes = self.source.distractor_classes
        return classes[image] if image < len(classes) else self.target

    def __str__(self) -> str:
        return counterfactual_text(self)

    def pixel_text(self) -> str:
        """Return the pixel check in words; empty if there was none."""
        return pixel_text(self)

    def _repr_html_(self) -> str:
        card: str = operation("html")(self)
        return card

    def with_images(self, query: ImageLike, distractors: Sequence[ImageLike]) -> Counterfactual:
        """Return the same counterfactual with its images attached, for `plot` and notebooks.

        Each is either the image as it was (the part that the model saw is cut out of it) or that part itself; one of
        another size is an error, since the cells would be drawn in wrong places.
        """
        from partswap.inputs.images import list_images

        distractors = list_images(distractors)
        if len(distractors) != self.distractors:
            raise ShapeError(
                f"{len(distractors)} distractor images for a counterfactual with {self.distractors}.",
                "Pass all of them, in the order the search saw them.",
            )
        size = self.source.frames.size if self.source.frames else None
        pictures = [
            picture_of_image(image, frame_of(self, number), self.grid, size)
            for number, image in enumerate((query, *distractors), -1)
        ]
        preprocess = self.pictures.preprocess if self.pictures else None
        return replace(self, pictures=Pictures(pictures[0], pictures[1:], (query, *distractors), preprocess))

    def with_files(self, near: str | Path | None = None) -> Counterfactual:
        """Return the same counterfactual with the images attached that it was made from, read again from their files.

        A file that is gone is also looked for by its name in the folder `near`.
        """
        query, *distractors = image_files(self, near)
        return self.with_images(query, distractors)

    def mask(self, distractor: int | None = None) -> NDArray[np.bool_]:
        """Return the pixels that edits swap, ``(height, width)``, of the query as it was passed.

        Parameters
        ----------
        distractor : int, optional
            Number of a distractor (`Edit.distractor_image`): the pixels of that image that edits take.
        """
        if distractor is not None and not 0 <= distractor < self.distractors:
            raise SettingError(
                f"there is no distractor {distractor}.", f"There are {self.distractors}, counted from 0."
            )
        frame = frame_of(self, -1 if distractor is None else distractor)
        if frame is None:
            raise SettingError(
                "which pixels of this image the model saw is not known.",
                "Attach the images: with_images(query, distractors).",
            )
        if distractor is None:
            return frame.mask(edit.query_box for edit in self.edits if edit.query_box)
        taken = (edit for edit in self.edits if edit.distractor_image == distractor)
        return frame.mask(edit.distractor_box for edit in taken if edit.distractor_box)

    def plot(self, path: str | Path | IO[Any] | None = None, *, kind: str = "edits", **more: Any) -> Figure:
        """Draw it as a figure of some kind (see `partswap.drawing.figures.draw`); save it if there is a path or file.

        The suffix (of a buffer ``format=``) says how: png, svg, pdf, jpg, or html for a page of its own.
        """
        figure: Figure = operation("plot")(self, path, kind=kind, **more)
        return figure

    def outlined(self, *, blur: bool = False) -> Image:
        """Return the query with the swapped regions outlined, everything else blurred if that is asked for."""
        picture: Image = operation("outline")(self, blur=blur)
        return picture

    def image(self, *, blur: bool = False) -> Image:
        """Former name of `outlined`."""
        warnings.warn("Counterfactual.image is called outlined.", DeprecationWarning, stacklevel=2)
        return self.outlined(blur=blur)

    def composite(self, *, scale: float = 2.0, feather: float = 0.5, match: bool = False) -> Image:
        """Return the query with the regions of all edits pasted in (see `partswap.pixels.composite.Paste`)."""
        image: Image = operation("composite")(self, scale=scale, feather=feather, match=match)
        return image

    def drawn(self) -> Pictures:
        """Return the images; none being attached is an error."""
        if self.pictures is None:
            raise SettingError(
                "this counterfactual has no images attached.", "Call with_images(query, distractors) first."
            )
        return self.pictures

    def verify(
        self, model: Any, query: Any = None, distractors: Any = None, *, atol: float | None = None
    ) -> Verification:
        """Apply the edits to the query's grid, run the head densely, and compare with the trace.

        Parameters
        ----------
        model : torch.nn.Module, Explainer or Cut
            The classifier, the explainer, the cut model; or the head, with grids.
        query : image or Tensor, optional
            By default the image that was explained, read again if need be; a grid ``(d, h, w)`` for a head.
        distractors : sequence of images or Tensor, optional
            Likewise; grids ``(n, d, h, w)`` for a head.
        atol : float, optional
            How far a probability may be from the trace; by default 1e-3, and 0.02 for half precision.
        """
        outcome: Verification = operation("verify")(self, model, query, distractors, atol)
        return outcome

    def images(self, query: Any = None, distractors: Any = None) -> list[Any]:
        """Return the images it was made from, the query first: those given, those attached, or their files."""
        if query is not None and distractors is not None:
            from partswap.inputs.images import list_images

            return [query, *list_images(distractors)]
        if self.pictures is not None and self.pictures.sources:
            return list(self.pictures.sources)
        return list(image_files(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return counterfactual_dict(self)

    @classmethod
    def from_dict(cls, data: Any, *, where: str = "this data") -> Counterfactual:
        """Return the counterfactual that `to_dict` described; anything else raises `FileFormatError`."""
        return counterfactual_of(cls, data, where)

    def save(self, path: str | Path) -> Path:
        """Write JSON; the file is complete or not there at all."""
        path = Path(path)
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Counterfactual:
        """Read what `save` wrote."""
        return read_counterfactual(cls, path)
