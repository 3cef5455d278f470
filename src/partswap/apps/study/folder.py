"""A study on disk: ``study.json`` says everything about it, ``images/`` holds its pictures under random names.

The file holds the answers and the study's secret. It is read by the server and never served; nobody but its owner can
read it, or look into the folder.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from partswap.apps.study.secret import random_from
from partswap.errors import FileFormatError, PartswapError
from partswap.utils.files import read_json, write_json

SCHEMA = "partswap.study"
#: Studies of version 1 have no secret.
VERSION = 2

#: Left, top, right, bottom, as shares of the picture's sides.
Box = tuple[float, float, float, float]
#: The name of a picture: random, and nothing else.
Name = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Secret = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Region(_Part):
    """A picture that is blurred but for one region."""

    image: Name
    box: Box


class LearningPair(_Part):
    """A query and its distractor, with the regions that a method would swap first."""

    query: Region
    distractor: Region


class Lesson(_Part):
    """What one method shows of one pair of classes, with image pairs chosen in one way."""

    pair: int
    method: str
    setup: str
    learning: tuple[LearningPair, ...]


class Question(_Part):
    """A picture to be told apart."""

    image: Name
    second: bool  #: it shows the second class of its pair


class ClassPair(_Part):
    """Two classes; queries of lessons are of the first, distractors of the second."""

    first: str
    second: str
    questions: tuple[Question, ...]


class Block(_Part):
    """One lesson as a participant takes it."""

    lesson: int
    swapped: bool  #: the first class is called B, not A


class Method(_Part):
    """A method that is compared."""

    name: str
    title: str


class Study(_Part):
    """Everything about a study."""

    title: str
    noun: str  #: what the pictures show, for instructions: "bird"
    consent: str  #: paragraphs, separated by empty lines
    contact: str
    return_url: str | None  #: where the last page sends people, with their code
    seed: int  #: decided which images and pairs of classes there are
    secret: Secret | None = Field(repr=False)  #: decides all orders (`random_for`); None in studies of version 1
    methods: tuple[Method, ...]  #: the first is held against the others
    setups: tuple[str, ...]
    pairs: tuple[ClassPair, ...]
    lessons: tuple[Lesson, ...]
    slots: tuple[tuple[Block, ...], ...]  #: what each participant takes, in order
    least_seconds: float  #: a learning pair is looked at for at least so long
    attention: int  #: attention checks per participant
    source: dict[str, Any]  #: which runs it was made from

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the methods by name, in order."""
        return {method.name: method.title for method in self.methods}

    def random_for(self, *purpose: str | int) -> random.Random:
        """Return random numbers for one purpose, the same every time."""
        if self.secret is None:  # as those orders were that people have seen
            return random.Random("/".join(str(part) for part in (self.seed, *purpose)))
        return random_from(self.secret, *purpose)

    def classes_of(self, block: Block) -> tuple[str, str]:
        """Return the names of what a participant knows as A and B."""
        pair = self.pairs[self.lessons[block.lesson].pair]
        return (pair.second, pair.first) if block.swapped else (pair.first, pair.second)


def write_study(folder: Path, study: Study) -> None:
    """Write ``study.json``."""
    content = {"schema": SCHEMA, "version": VERSION, **study.model_dump(mode="json")}
    write_json(folder / "study.json", content, private=True, place="out")


def read_study(folder: str | Path) -> Study:
    """Read what ``partswap study plan`` wrote."""
    path = Path(folder) / "study.json"
    if not path.exists():
        raise PartswapError(f"{folder} holds no study.", "Make one with partswap study plan.")
    content = read_json(path)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FileFormatError(f"{path} is not about a study.", "Make it with partswap study plan.")
    version = content.get("version")
    if version not in (1, VERSION):
        raise FileFormatError(
            f"{path} has version {version}, this partswap reads 1 and {VERSION}.",
            "Use the partswap that made it, or plan the study again.",
        )
    if version == 1:
        content["secret"] = None
    try:
        return Study(**{name: value for name, value in content.items() if name not in ("schema", "version")})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise FileFormatError(f"{path}: {place}: {first['msg']}.", "Correct it, or plan the study again.") from error


def image_path(folder: Path, name: str) -> Path:
    """Return the file of a picture."""
    return folder / "images" / f"{name}.jpg"
