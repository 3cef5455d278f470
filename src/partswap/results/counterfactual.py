"""The result: which cells were swapped for which, and what the model said after each swap.

A `Counterfactual` is what searches return, metrics read, figures draw, studies show and files hold. It is plain data;
pictures can ride along (`with_images`) but are never saved.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, get_type_hints

from partswap._version import __version__
from partswap.errors import FileFormatError, ImageError, SettingError, ShapeError
from partswap.grid import GridShape
from partswap.inputs.frame import Frame, PixelBox
from partswap.results.operations import operation
from partswap.results.verification import Verification
from partswap.results.words import Words, decimal
from partswap.results.words import percent as percent
from partswap.utils.files import write_text
from partswap.utils.notes import Note

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from PIL.Image import Image
    from pydantic import TypeAdapter

    from partswap.inputs.images import ImageLike
    from partswap.inputs.preprocess import Preprocess

SCHEMA = "partswap.counterfactual"
#: Version 2 adds the probability of the class said before, 3 words, 4 the pixel check; earlier files are still read.
SCHEMA_VERSION = 4
#: Edits that text writes out; the rest are counted.
SHOWN = 12
#: What in `Counterfactual.source` is a `Note`: where the target comes from, why the search gave up, what may help then.
REASONS = ("target_from", "gave_up", "advice")


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
    """What the model says at one moment."""

    probability: float  #: of the target class
    predicted: int  #: the class the model says
    objective: float | None = None  #: what the search maximised; None before the first edit
    own: float | None = field(default=None, compare=False)  #: probability of the class said before the first edit


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

    query: Image
    distractors: Sequence[Image]
    sources: Sequence[ImageLike] = ()  #: the query and the distractors as they were passed, to be read again
    preprocess: Preprocess | None = None  #: how they became the model's inputs, if that is known


@dataclass(frozen=True)
class Provenance:
    """What a result tells of its images and its model besides what the search finds out."""

    told: Mapping[str, Any] = field(default_factory=dict)  #: query, distractors, model, layer, auxiliary: their names
    class_names: Sequence[str] = ()  #: of all classes, if they are known; the result keeps those it speaks of
    pictures: Pictures | None = None

    def source(self, steps: Iterable[Step], target: int, **found: Any) -> dict[str, Any]:
        """Return where a result came from; `found` is what the search adds."""
        source = {"partswap": __version__, **found, **self.told}
        if self.told:
            named = sorted({target, *(step.predicted for step in steps), *self.told.get("distractor_classes", ())})
            source["class_names"] = {str(k): self.class_names[k] for k in named} if self.class_names else {}
        return source


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
    source : Mapping[str, Any]
        Where it came from: names of the query and the distractors, class names, model, layer, auxiliary, version.
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
    source: Mapping[str, Any] = field(default_factory=dict, hash=False)
    evaluations: int = 0
    seconds: float = field(default=0.0, compare=False)  # two searches that find the same are equal
    words: Words | None = None
    pixel: PixelCheck | None = None
    pictures: Pictures | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        reasons = {name: Note.read(self.source[name]) for name in REASONS if name in self.source}
        object.__setattr__(self, "source", {**self.source, **reasons})
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
        frames = [self._frame(k) for k in range(-1, self.distractors)] if self.edits else []
        object.__setattr__(self, "edits", tuple(self._located(edit, frames) for edit in self.edits))

    def __len__(self) -> int:
        return len(self.edits)

    @property
    def probability(self) -> float:
        """Probability of the target after all edits."""
        return (self.trace[-1] if self.trace else self.before).probability

    def class_name(self, index: int) -> str:
        """Return the name of a class if it is known, else ``class 7``."""
        names: Mapping[str, str] = self.source.get("class_names", {})
        return names.get(str(index), f"class {index}")

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
        names = self.source.get("distractors", ())
        name = Path(names[image]).name if image < len(names) and names[image] else ""
        return name if name and not name.isdecimal() else f"distractor {self.distractor_number(image)}"

    def distractor_number(self, image: int) -> int:
        """Return the number of a distractor for people, from 1: in the order edits use them, then the others'."""
        used = dict.fromkeys(edit.distractor_image for edit in self.edits)
        order = [*used, *(k for k in range(self.distractors) if k not in used)]
        return order.index(image) + 1

    def distractor_class(self, image: int) -> int:
        """Return what the model says of a distractor: the target, unless others were asked for."""
        said: Sequence[int] = self.source.get("distractor_classes", ())
        return said[image] if image < len(said) else self.target

    def __str__(self) -> str:
        from partswap.utils.terminal import wrapped  # which imports rich

        count = f"{len(self)} edit{'' if len(self) == 1 else 's'}"
        start, end = self.before.probability, self.probability
        head = f"{self.class_name(self.query_class)} -> {self.class_name(self.target)}"
        outcome = f"in {count}" if self.flipped else f"not reached in {count}"
        lines = [f"Counterfactual: {head} {outcome} (target probability {decimal(start)} -> {decimal(end)})"]
        said = self.before.predicted
        for number, (edit, step) in enumerate(zip(self.edits[:SHOWN], self.trace, strict=False), 1):
            mine, theirs = self.grid.place(edit.query_cell), self.grid.place(edit.image_cell)
            swap = f"query ({mine}) -> {self.distractor_name(edit.distractor_image)} ({theirs})"
            now = "" if step.predicted == said else f"   the model now says {self.class_name(step.predicted)}"
            lines.append(f"  {number}. {swap}   p = {decimal(step.probability)}{now}")
            said = step.predicted
        if len(self) > SHOWN:
            lines.append(f"  ... and {len(self) - SHOWN} more edits")
        if not self.flipped:
            last = self.trace[-1] if self.trace else self.before
            why = f": {self.source['gave_up']}" if "gave_up" in self.source else ""
            verb = "still says" if last.predicted == self.query_class else "says"
            lines.append(f"  not reached{why}; the model {verb} {self.class_name(last.predicted)}")
            lines += [f"  {self.source['advice']}"] if "advice" in self.source else []
        if self.pixel is not None:
            lines.append(f"  {self.pixel_text()}")
        if self.words is not None:
            lines.append(f"  {self.words.sentence}")
        return wrapped("\n".join(lines))

    def pixel_text(self) -> str:
        """Return the pixel check in words; empty if there was none."""
        if self.pixel is None:
            return ""
        verb = "also says" if self.pixel.flipped else "says"
        name, rise = self.class_name(self.pixel.predicted), (percent(self.pixel.before), percent(self.pixel.after))
        return f"in pixels the whole network {verb} {name} (target {rise[0]} -> {rise[1]})"

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
        frames = [self._frame(k) for k in range(-1, self.distractors)]
        seen = [self._seen(image, frame) for image, frame in zip((query, *distractors), frames, strict=True)]
        how = self.pictures.preprocess if self.pictures else None
        return replace(self, pictures=Pictures(seen[0], tuple(seen[1:]), (query, *distractors), how))

    def with_files(self, near: str | Path | None = None) -> Counterfactual:
        """Return the same counterfactual with the images attached that it was made from, read again from their files.

        A file that is gone is also looked for by its name in the folder `near`.
        """
        paths = [_found(name, near) for name in (self.source.get("query", ""), *self.source.get("distractors", ()))]
        return self.with_images(paths[0], paths[1:])

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
        frame = self._frame(-1 if distractor is None else distractor)
        if frame is None:
            raise SettingError(
                "which pixels of this image the model saw is not known.",
                "Attach the images: with_images(query, distractors).",
            )
        if distractor is None:
            return frame.mask(edit.query_box for edit in self.edits if edit.query_box)
        taken = (edit for edit in self.edits if edit.distractor_image == distractor)
        return frame.mask(edit.distractor_box for edit in taken if edit.distractor_box)

    def _located(self, edit: Edit, frames: Sequence[Frame | None]) -> Edit:
        """Return an edit with its boxes, where the frames (the query's first) say them."""
        query, donor = frames[0], frames[1 + edit.distractor_image]
        edit = replace(edit, cells=self.grid.cells)
        return replace(
            edit,
            query_box=None if query is None else query.cell_box(self.grid, edit.query_cell),
            distractor_box=None if donor is None else donor.cell_box(self.grid, edit.image_cell),
        )

    def _frame(self, image: int) -> Frame | None:
        """Return which part of the query (-1) or of a distractor the model saw, None if that is not known."""
        from partswap.inputs.images import is_prepared

        seen = self.source.get("seen", {})
        stored = seen.get("query") if image < 0 else seen["distractors"][image] if "distractors" in seen else None
        if stored is not None:
            return Frame(tuple(stored["size"]), tuple(stored["box"]))
        if self.pictures is None or not self.pictures.sources:
            return None
        # An image without a record of what was cut out of it is the picture itself; others were warped on the way.
        if seen and not is_prepared(self.pictures.sources[1 + image]):
            return None
        return Frame.whole((self.pictures.query if image < 0 else self.pictures.distractors[image]).size)

    def _seen(self, image: ImageLike, frame: Frame | None) -> Image:
        """Return the part of an image that the model saw."""
        from partswap.inputs.images import read_image

        picture = read_image(image)
        told = self.source.get("seen", {}).get("canvas")
        canvas = tuple(told) if told else None
        if frame is not None and canvas is not None and picture.size == frame.size:
            left, top, right, bottom = (round(edge) for edge in frame.box)
            return picture.crop((left, top, max(right, left + 1), max(bottom, top + 1))).resize(canvas)
        oblong = abs(math.log(picture.width * self.grid.h / (picture.height * self.grid.w)))
        if picture.size == canvas or (canvas is None and oblong < 0.02):
            return picture
        saw = f"{canvas[0]} x {canvas[1]}" if canvas else f"a grid of {self.grid} cells"
        was = f", nor the image it is from ({frame.size[0]} x {frame.size[1]})" if frame else ""
        raise ShapeError(
            f"an image of {picture.width} x {picture.height} pixels is not what the model saw ({saw}){was}.",
            "Pass the image itself, or what Preprocess.crop(image) returns.",
        )

    def plot(self, path: str | Path | IO[Any] | None = None, *, kind: str = "edits", **more: Any) -> Figure:
        """Draw it as a figure of some kind (see `partswap.drawing.figures.draw`); save it if there is a path or file.

        The suffix (of a buffer ``format=``) says how: png, svg, pdf, jpg, or html for a page of its own.
        """
        figure: Figure = operation("plot")(self, path, kind=kind, **more)
        return figure

    def image(self, *, blur: bool = False) -> Image:
        """Return the query with the swapped regions outlined, everything else blurred if that is asked for."""
        image: Image = operation("outline")(self, blur=blur)
        return image

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
        return [_found(name, None) for name in (self.source.get("query", ""), *self.source.get("distractors", ()))]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        data = asdict(replace(self, pictures=None))
        del data["pictures"]
        for edit in data["edits"]:
            del edit["cells"], edit["query_box"], edit["distractor_box"]  # follow from the grid and the source
        return {"schema": SCHEMA, "version": SCHEMA_VERSION, **data}

    @classmethod
    def from_dict(cls, data: Any, *, where: str = "this data") -> Counterfactual:
        """Return the counterfactual that `to_dict` described; anything else raises `FileFormatError`."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise FileFormatError(
                f"{where} is not a partswap counterfactual.", "Use a file that Counterfactual.save wrote."
            )
        if data.get("version") not in range(1, SCHEMA_VERSION + 1):
            raise FileFormatError(
                f"{where} has schema version {data.get('version')}, this partswap reads {SCHEMA_VERSION}.",
                "Install the partswap version that wrote it, or make it again.",
            )
        fields = {k: v for k, v in data.items() if k not in ("schema", "version")}
        try:
            return cls(**{name: _stored(name).validate_json(json.dumps(v), strict=True) for name, v in fields.items()})
        except (KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).splitlines()[:3])
            raise FileFormatError(
                f"{where} is damaged ({reason}).", "Make it again; a counterfactual file has all fields or none."
            ) from error

    def save(self, path: str | Path) -> Path:
        """Write JSON; the file is complete or not there at all."""
        path = Path(path)
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Counterfactual:
        """Read what `save` wrote."""
        try:
            path = Path(path)
            data = json.loads(path.read_text(encoding="utf-8"))
        except IsADirectoryError as error:
            raise FileFormatError(
                f"{path} is a folder, not a counterfactual.",
                "Name a JSON file that Counterfactual.save wrote; for a run: partswap report.",
            ) from error
        except OSError as error:
            raise FileFormatError(f"there is no file {path} ({error.strerror}).", "Check the path.") from error
        except TypeError as error:
            raise FileFormatError(f"{path!r} is no path.", "Give the path of a file.") from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FileFormatError(
                f"{path} is not complete JSON ({error}).", "It was cut off or is not JSON; make it again."
            ) from error
        return cls.from_dict(data, where=str(path))


def _found(name: str, near: str | Path | None) -> Path:
    """Return the file of an image by the name a counterfactual knows it by."""
    places = [Path(name), *([Path(near) / Path(name).name] if near is not None else [])] if name else []
    for place in places:
        if place.is_file():
            return place
    raise ImageError(
        f"the image {name or 'of this counterfactual'} is not there any more.",
        "Pass the images: with_images(query, distractors).",
    )


@cache
def _stored(name: str) -> TypeAdapter[Any]:
    """Return what reads a stored field of a counterfactual, and refuses values of another type."""
    from pydantic import TypeAdapter

    return TypeAdapter(get_type_hints(Counterfactual)[name])
