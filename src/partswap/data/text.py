"""Read annotation files; every error names the file and the line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from partswap.errors import DataError

T = TypeVar("T")

#: Collects errors in place of raising them; None raises the first.
Faults = list[DataError] | None

AGAIN = "Repair it, or unpack the archive again."


class MalformedError(ValueError):
    """A line or entry says something impossible; the message says what."""


def complain(error: DataError, faults: Faults) -> None:
    """Raise an error, or add it to `faults` if there is such a list."""
    if faults is None:
        raise error
    faults.append(error)


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}.", "Check that the path is the data set's folder.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}).", AGAIN) from error


def read_rows(path: Path, convert: Callable[[str], T], expected: str, faults: Faults) -> Iterator[T]:
    """Yield each line that is not blank, converted.

    Parameters
    ----------
    path : Path
        A text file.
    convert : Callable
        Takes a line; raises ValueError if it is malformed.
    expected : str
        What a line should hold, for the message.
    faults : list of DataError or None
        Collects malformed lines; None raises on the first.
    """
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = convert(line)
        except MalformedError as error:
            complain(DataError(f"{path} line {number}: {error}.", AGAIN), faults)
        except ValueError:
            shown = line if len(line) <= 60 else line[:59] + "…"
            complain(DataError(f"{path} line {number}: expected {expected}, found {shown!r}.", AGAIN), faults)
        else:
            yield row


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path} line {error.lineno}: not JSON ({error.msg}).", AGAIN) from error


def read_entries(path: Path, where: str, entries: Any, convert: Callable[[Any], T], faults: Faults) -> Iterator[T]:
    """Yield each entry of a JSON list, converted; `where` is the list's name, for messages."""
    if not isinstance(entries, list):
        complain(DataError(f"{path}: {where} is not a list.", AGAIN), faults)
        return
    for number, entry in enumerate(entries):
        try:
            made = convert(entry)
        except MalformedError as error:
            complain(DataError(f"{path} {where}[{number}]: {error}.", AGAIN), faults)
        except KeyError as error:
            complain(DataError(f"{path} {where}[{number}]: there is no {error}.", AGAIN), faults)
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            complain(DataError(f"{path} {where}[{number}]: malformed ({error}).", AGAIN), faults)
        else:
            yield made


def id_and_rest(line: str) -> tuple[int, str]:
    """Convert ``"17 something with spaces"``."""
    number, rest = line.split(maxsplit=1)
    return int(number), rest.strip()
