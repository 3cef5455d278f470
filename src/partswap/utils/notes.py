"""Notes and reasons: what the library tells people of what it assumed, chose or could not do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Note:
    """What is told, and what kind of note it is: code asks for the kind, people read the text.

    Examples
    --------
    >>> note = Note("label", "the true class")
    >>> note.kind, str(note)
    ('label', 'the true class')
    """

    kind: str  #: one word: "given", "label", "distractors", "guess", "outputs", "auxiliary", "unfamiliar", ...
    text: str  #: for people

    def __str__(self) -> str:
        return self.text

    @classmethod
    def read(cls, stored: Any) -> Note:
        """Return the note that a file holds; files of earlier versions hold the text alone."""
        if isinstance(stored, Mapping):
            return cls(str(stored["kind"]), str(stored["text"]))
        return stored if isinstance(stored, cls) else cls("given" if stored == "given" else "unknown", str(stored))
