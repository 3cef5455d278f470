"""Where a counterfactual comes from: its images, its model, and what the search noted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from partswap._version import __version__
from partswap.errors import SettingError
from partswap.inputs.frame import Frame
from partswap.results.edits import Pictures, Step
from partswap.utils.notes import Note

if TYPE_CHECKING:
    from pydantic import TypeAdapter

#: Fields that hold a `Note`; files of earlier versions hold its text alone.
NOTES = ("target_from", "gave_up", "advice")
#: Fields that a file calls differently.
KEYS = {"version": "partswap", "frames": "seen"}


@dataclass(frozen=True)
class PictureFrames:
    """Which part of each image the model saw; None for an image that a transform warped."""

    size: tuple[int, int]  #: width and height of what goes into the network
    query: Frame | None = None
    distractors: list[Frame | None] = field(default_factory=list)

    def of(self, image: int) -> Frame | None:
        """Return the frame of a distractor, or of the query for -1."""
        frames = [*self.distractors, self.query]  # -1 is the last
        return frames[image] if image < len(self.distractors) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as files hold it."""
        query, *distractors = (
            None if frame is None else {"size": list(frame.size), "box": list(frame.box)}
            for frame in (self.query, *self.distractors)
        )
        return {"canvas": list(self.size), "query": query, "distractors": distractors}


@dataclass(frozen=True)
class Provenance:
    """Where a counterfactual comes from; a field is None or empty where that is not known.

    Files hold it under "source". Keys that this version does not know are kept in `extra` and written again.
    """

    version: str | None = None  #: of partswap, when the search ran
    query: str | None = None  #: file or name of the query
    distractors: list[str] = field(default_factory=list)  #: files or names of the distractors
    distractor_indices: list[int] = field(default_factory=list)  #: their places in the list that was passed
    distractor_classes: list[int] = field(default_factory=list)  #: what the model says of each; empty: the target
    class_names: dict[int, str] = field(default_factory=dict)  #: of the classes that the counterfactual mentions
    model: str | None = None
    layer: str | None = None  #: where the model was cut
    auxiliary: str | None = None  #: None if there was none
    activation: Literal["softmax", "sigmoid"] = "softmax"  #: what makes probabilities of logits
    frames: PictureFrames | None = None  #: which part of each image the model saw
    preprocess: dict[str, Any] | None = None  #: how images become inputs, as `Preprocess.record` says it
    target_from: Note | None = None  #: how the target class was chosen
    label: int | None = None  #: the true class of the query
    evaluator: str | None = None  #: what evaluated the swaps
    outside: int | None = None  #: how many edits are outside a constraint that was relaxed
    gave_up: Note | None = None  #: why the search ended early
    advice: Note | None = None  #: what may help then
    extra: dict[str, Any] = field(default_factory=dict)  #: keys of later versions

    @classmethod
    def of(cls, source: Provenance | Mapping[str, Any]) -> Provenance:
        """Return a provenance as it is, or that of plain data."""
        return source if isinstance(source, cls) else cls.from_dict({key: source[key] for key in source})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Provenance:
        """Return what `to_dict` wrote, by this or another version."""
        names = {KEYS.get(f.name, f.name): f.name for f in fields(cls) if f.name != "extra"}
        values: dict[str, Any] = {"extra": {key: value for key, value in data.items() if key not in names}}
        for key in names.keys() & data.keys():
            value = Note.read(data[key]) if names[key] in NOTES and data[key] is not None else data[key]
            if names[key] == "frames" and isinstance(value, Mapping):
                value = {("size" if part == "canvas" else part): frame for part, frame in value.items()}
            try:
                values[names[key]] = _reader(names[key]).validate_python(value)
            except ValueError as error:
                reason = " ".join(str(error).splitlines()[:3])
                raise SettingError(
                    f"source[{key!r}] is {value!r} ({reason}).", "Pass a Provenance, or what its to_dict returns."
                ) from error
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON: what is known, under the keys of files."""
        data = {key: self._entry(key) for key in self._entries()}
        data |= {name: {"kind": data[name].kind, "text": data[name].text} for name in NOTES if name in data}
        return data

    def _entries(self) -> list[str]:
        """Return the keys of what is known; beside a layer, that there is no name or auxiliary is known too."""
        empty: tuple[Any, ...] = (None, [], {})
        stated = {"model", "auxiliary", "class_names"} if self.layer is not None else set()
        names = [f.name for f in fields(self) if f.name != "extra"]
        listed = [name for name in names if name in stated or getattr(self, name) not in empty]
        return [KEYS.get(n, n) for n in listed if n != "activation" or self.activation != "softmax"] + list(self.extra)

    def _entry(self, key: str) -> Any:
        """Return the value of a key as earlier versions held it."""
        names = {stored: name for name, stored in KEYS.items()}
        if key == "seen" and self.frames is not None:
            return self.frames.to_dict()
        if key == "class_names":
            return {str(index): self.class_names[index] for index in sorted(self.class_names)}
        return self.extra[key] if key in self.extra else getattr(self, names.get(key, key))

    # Until the next release it can be read like the mapping it once was.
    def __getitem__(self, key: str) -> Any:
        warnings.warn(f"source[{key!r}] is deprecated: it has attributes.", DeprecationWarning, stacklevel=2)
        if key not in self._entries():
            raise KeyError(key)
        return self._entry(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, as a mapping does; deprecated, read the attribute."""
        warnings.warn(f"source.get({key!r}) is deprecated: it has attributes.", DeprecationWarning, stacklevel=2)
        return self._entry(key) if key in self._entries() else default

    def __contains__(self, key: object) -> bool:
        return key in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def keys(self) -> list[str]:
        """Return the keys of what is known, as a mapping does."""
        return self._entries()


@dataclass(frozen=True)
class ResultContext:
    """What the result of a search says of its images and its model besides what the search finds out."""

    provenance: Provenance = field(default_factory=Provenance)
    class_names: Sequence[str] = ()  #: of all classes, if they are known; the result holds those it mentions
    pictures: Pictures | None = None

    def result_provenance(self, steps: Iterable[Step], target: int, **outcome: Any) -> Provenance:
        """Return the provenance of the result; `outcome` are the fields that the search sets."""
        mentioned = {target, *(step.predicted for step in steps), *self.provenance.distractor_classes}
        names = {index: self.class_names[index] for index in sorted(mentioned)} if self.class_names else {}
        return replace(self.provenance, version=__version__, class_names=names, **outcome)


@cache
def _reader(name: str) -> TypeAdapter[Any]:
    """Return what reads a field of a `Provenance` and refuses values of another type."""
    from pydantic import TypeAdapter

    return TypeAdapter(get_type_hints(Provenance)[name])
