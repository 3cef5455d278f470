"""The result: which cells were swapped for which, and what the model said after each swap.

A `Counterfactual` is what searches return, metrics read, figures draw, studies show and files hold. It is plain data;
pictures can ride along (`with_images`) but are never saved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from partswap._version import __version__
from partswap.errors import ClassIndexError, FileFormatError, SettingError, ShapeError
from partswap.grid import GridShape

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image
    from pydantic import TypeAdapter
    from torch import Tensor

SCHEMA = "partswap.counterfactual"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Edit:
    """One swap: the query's cell looks like the distractor's cell from now on."""

    query_cell: int  #: flat index, ``row * w + col``
    distractor_cell: int  #: flat index over all distractors, ``image * h * w + row * w + col``
    distractor_image: int  #: which distractor the cell is from


@dataclass(frozen=True)
class Step:
    """What the model says at one moment."""

    probability: float  #: of the target class
    predicted: int  #: the class the model says
    objective: float | None = None  #: what the search maximised; None before the first edit


@dataclass(frozen=True)
class Pictures:
    """The images a counterfactual is about, for drawing only."""

    query: Image
    distractors: Sequence[Image]


@dataclass(frozen=True)
class About:
    """What a result tells of its images and its model besides what the search finds out."""

    told: Mapping[str, Any] = field(default_factory=dict)  #: query, distractors, model, layer, auxiliary: their names
    class_names: Sequence[str] = ()  #: of all classes, if they are known; the result keeps those it speaks of
    pictures: Pictures | None = None

    def source(self, steps: Iterable[Step], target: int, **found: Any) -> dict[str, Any]:
        """Return where a result came from; `found` is what the search adds."""
        source = {"partswap": __version__, **found, **self.told}
        if self.told:
            named = sorted({target, *(step.predicted for step in steps)})
            source["class_names"] = {str(k): self.class_names[k] for k in named} if self.class_names else {}
        return source


@dataclass(frozen=True)
class Verification:
    """Outcome of applying the edits once more and running the whole head."""

    holds: bool  #: the head says what the counterfactual claims
    predicted: int  #: what the head says after all edits
    probability: float  #: of the target class, after all edits
    deviation: float  #: largest difference to a probability of the trace

    def __bool__(self) -> bool:
        return self.holds


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

    Examples
    --------
    >>> cf = Counterfactual(
    ...     query_class=3, target=5, grid=GridShape(7, 7), distractors=2,
    ...     edits=(Edit(10, 60, 1),), before=Step(0.1, 3), trace=(Step(0.8, 5, -0.2),), flipped=True,
    ... )
    >>> print(cf)
    Counterfactual: 3 -> 5 in 1 edit (target probability 0.10 -> 0.80)
      1. query (row 1, col 3) <- distractor 1 (row 1, col 4)   p = 0.80
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
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    evaluations: int = 0
    seconds: float = 0.0
    pictures: Pictures | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.edits) != len(self.trace):
            problem = f"{len(self.edits)} edits but {len(self.trace)} steps in the trace."
            raise SettingError(problem, "Give one step per edit.")
        if self.grid.cells < 1 or self.distractors < 1:
            raise SettingError(f"{self.grid} grid, {self.distractors} distractors.", "Both must be at least 1.")
        for edit in self.edits:
            ok = 0 <= edit.query_cell < self.grid.cells
            ok &= 0 <= edit.distractor_cell < self.grid.cells * self.distractors
            ok &= edit.distractor_image == edit.distractor_cell // self.grid.cells
            if not ok:
                raise SettingError(
                    f"{edit} does not fit a {self.grid} grid with {self.distractors} distractors.",
                    "Cells are flat indices: row * w + col, plus image * h * w for distractors.",
                )

    def __len__(self) -> int:
        return len(self.edits)

    @property
    def probability(self) -> float:
        """Probability of the target after all edits."""
        return (self.trace[-1] if self.trace else self.before).probability

    def class_name(self, index: int) -> str:
        """Return the name of a class if it is known, its number otherwise."""
        names: Mapping[str, str] = self.source.get("class_names", {})
        return names.get(str(index), str(index))

    def __str__(self) -> str:
        count = f"{len(self)} edit{'' if len(self) == 1 else 's'}"
        start, end = self.before.probability, self.probability
        head = f"{self.class_name(self.query_class)} -> {self.class_name(self.target)}"
        outcome = f"in {count}" if self.flipped else f"not reached in {count}"
        lines = [f"Counterfactual: {head} {outcome} (target probability {start:.2f} -> {end:.2f})"]
        for number, (edit, step) in enumerate(zip(self.edits, self.trace, strict=True), 1):
            row, col = self.grid.row_col(edit.query_cell)
            image, drow, dcol = self.grid.locate(edit.distractor_cell)
            swap = f"query (row {row}, col {col}) <- distractor {image} (row {drow}, col {dcol})"
            lines.append(f"  {number}. {swap}   p = {step.probability:.2f}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from partswap.pictures import counterfactual_html

        return counterfactual_html(self)

    def with_images(self, query: Image, distractors: Sequence[Image]) -> Counterfactual:
        """Return the same counterfactual with its images attached, for `plot` and notebooks."""
        if len(distractors) != self.distractors:
            raise ShapeError(
                f"{len(distractors)} distractor images for a counterfactual with {self.distractors}.",
                "Pass all of them, in the order the search saw them.",
            )
        return replace(self, pictures=Pictures(query, tuple(distractors)))

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw query and distractor side by side for every edit; save the figure if a path is given."""
        from partswap.pictures import plot_counterfactual

        return plot_counterfactual(self, path)

    def verify(self, model: Any, query: Tensor, distractors: Tensor, *, atol: float = 1e-3) -> Verification:
        """Apply the edits to the query's grid, run the head densely, and compare with the trace.

        Parameters
        ----------
        model : torch.nn.Module or Cut
            The head with grids, or the cut model with (preprocessed) images.
        query : Tensor
            Grid ``(d, h, w)`` for a head, image ``(3, H, W)`` for a cut model.
        distractors : Tensor
            Grids ``(n, d, h, w)`` or images ``(n, 3, H, W)``.
        atol : float
            How far a probability may be from the trace.
        """
        import torch

        from partswap.grid import Grids, to_cells

        head, context = model, None
        with torch.no_grad():
            if hasattr(model, "features") and hasattr(model, "head"):
                head, mine = model.head, model.features(query[None])
                query, context, distractors = mine.values[0], mine.context, model.features(distractors).values
            if tuple(query.shape[-2:]) != tuple(self.grid) or len(distractors) != self.distractors:
                raise ShapeError(
                    f"query {tuple(query.shape)} and distractors {tuple(distractors.shape)} are not what this "
                    f"counterfactual is about ({self.distractors} distractors, {self.grid} grid).",
                    "Pass the same query and distractors the search saw.",
                )
            cells, donors = to_cells(query).clone(), to_cells(distractors)
            grids = [cells.clone()]
            for edit in self.edits:
                cells[edit.query_cell] = donors[edit.distractor_cell]
                grids.append(cells.clone())
            batch = torch.stack(grids).transpose(1, 2).reshape(len(grids), -1, *self.grid)
            logits = torch.cat([head(g[None] if context is None else Grids(g[None], context)) for g in batch]).float()
        if self.target >= logits.shape[1]:
            problem = f"target {self.target} but the head has {logits.shape[1]} classes."
            raise ClassIndexError(problem, "Pass the head of this model.")
        probabilities = logits.softmax(1)[:, self.target].tolist()
        predicted = int(logits[-1].argmax())
        claimed = [self.before, *self.trace]
        deviation = max(abs(p - s.probability) for p, s in zip(probabilities, claimed, strict=True))
        holds = deviation <= atol and (predicted == self.target) == self.flipped
        return Verification(holds, predicted, probabilities[-1], deviation)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        data = asdict(replace(self, pictures=None))
        del data["pictures"]
        return {"schema": SCHEMA, "version": SCHEMA_VERSION, **data}

    @classmethod
    def from_dict(cls, data: Any, *, where: str = "this data") -> Counterfactual:
        """Return the counterfactual that `to_dict` described; anything else raises `FileFormatError`."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise FileFormatError(
                f"{where} is not a partswap counterfactual.", "Use a file that Counterfactual.save wrote."
            )
        if data.get("version") != SCHEMA_VERSION:
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
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        part = path.with_name(path.name + ".part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Counterfactual:
        """Read what `save` wrote."""
        path = Path(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise FileFormatError(f"there is no file {path} ({error.strerror}).", "Check the path.") from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FileFormatError(
                f"{path} is not complete JSON ({error}).", "It was cut off or is not JSON; make it again."
            ) from error
        return cls.from_dict(data, where=str(path))


@cache
def _stored(name: str) -> TypeAdapter[Any]:
    """Return what reads a stored field of a counterfactual, and refuses values of another type."""
    from pydantic import TypeAdapter

    return TypeAdapter(get_type_hints(Counterfactual)[name])
