"""Several images at once: what goes wrong with one of them does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from partswap.errors import PartswapError, SettingError, UnexplainedError

#: What happens to the error of one image among several: raised when all are done, or left out of the results.
OnError = Literal["raise", "skip"]
#: Images that a message names; the rest are counted.
NAMED = 10


@dataclass(frozen=True)
class Failure:
    """An image that could not be explained."""

    index: int  #: which of those that were passed
    name: str  #: its file, if it has one
    error: PartswapError

    def __str__(self) -> str:
        name = f" ({Path(self.name).name})" if self.name else ""
        return f"image {self.index + 1}{name}: {self.error.problem}"


class Failures:
    """Collects what goes wrong with single images."""

    def __init__(self, on_error: OnError) -> None:
        if on_error not in get_args(OnError):
            raise SettingError(f"on_error is {on_error!r}.", "Use 'raise' or 'skip'.")
        self.on_error = on_error
        self.failures: list[Failure] = []

    @contextmanager
    def collecting(self, index: int, name: str) -> Iterator[None]:
        """Keep an error that is raised within, if it is one of partswap's."""
        try:
            yield
        except PartswapError as error:
            self.failures.append(Failure(index, name, error))

    def raise_or_note(self, results: Sequence[Any]) -> str | None:
        """Raise one error about all of them, or return it as a note; None if nothing went wrong."""
        if not self.failures:
            return None
        self.failures.sort(key=lambda failure: failure.index)
        named = "; ".join(str(failure).rstrip(".") for failure in self.failures[:NAMED])
        more = f"; and {len(self.failures) - NAMED} more" if len(self.failures) > NAMED else ""
        text = f"{len(self.failures)} of {len(results)} images could not be explained: {named}{more}."
        if self.on_error == "skip":
            return text
        raise UnexplainedError(
            text,
            "This error has the others (`results`) and what went wrong (`failures`); on_error='skip' goes without it.",
            tuple(self.failures),
            tuple(results),
        ) from self.failures[0].error
