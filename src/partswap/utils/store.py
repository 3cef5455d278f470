"""Arrays on disk that are filled row by row and survive being killed.

A store is a folder: ``key.json`` says what the arrays were computed from, ``progress.json`` how many rows are
done, and each array is one ``.npy`` file. Rows are written before the progress that counts them, so a killed run
goes on after the last counted row, and the finished files are the same, byte for byte, as if nothing had happened.
The folder's name holds a digest of the key: other inputs, another folder, so nothing stale is ever read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from partswap.errors import FileFormatError, SettingError, ShapeError
from partswap.utils.files import check_writable, locked, read_json, write_errors, write_json


def default_cache() -> Path:
    """Return where caches go by default: ``$PARTSWAP_CACHE``, else the user's cache folder as the system has it.

    Earlier versions had ``~/.cache/partswap`` on every system: it is used on if it is there.
    """
    if "PARTSWAP_CACHE" in os.environ:
        return Path(os.environ["PARTSWAP_CACHE"])
    previous = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "partswap"
    return previous if previous.is_dir() else platformdirs.user_cache_path("partswap", appauthor=False)


def digest_of(key: Mapping[str, Any]) -> str:
    """Return a key's digest, for names of folders."""
    return hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=8).hexdigest()


def check_cache(folder: Path | None) -> None:
    """Raise an error if a folder of caches, by default the user's, cannot be written; nothing is made."""
    try:
        check_writable(folder or default_cache(), folder=True)
    except SettingError as error:
        problem = f"the cache folder cannot be used: {error.problem}"
        raise SettingError(problem, "Choose another ({cache}).") from error


@dataclass(frozen=True)
class MemmapRef:
    """Where an array lies in a file, so that another process can map it."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, array: NDArray[Any]) -> MemmapRef | NDArray[Any]:
        """Return where a memory-mapped array lies, or the array itself if it is in memory."""
        if isinstance(array, np.memmap) and array.filename is not None:
            return cls(Path(array.filename), array.dtype.str, array.shape, array.offset)
        return array

    def open(self) -> NDArray[Any]:
        """Return the array, read-only."""
        return np.memmap(self.path, np.dtype(self.dtype), "r", self.offset, self.shape)


class Store:
    """Arrays with `count` rows each, filled in order.

    The folder is in `cache` and its name begins with `title`; `key` is everything the arrays depend on, as plain JSON
    values.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()), "squares", {"of": "numbers"}, count=4)
    >>> while not store.complete:
    ...     rows = np.arange(store.done, min(store.done + 3, 4))
    ...     store.append(squares=rows**2)
    >>> store.array("squares").tolist()
    [0, 1, 4, 9]
    """

    def __init__(self, cache: Path, title: str, key: Mapping[str, Any], count: int) -> None:
        self.key = {**json.loads(json.dumps(key)), "count": count}
        self.folder = cache / f"{title}-{digest_of(self.key)}"
        self.count = count
        self.done = 0
        self._layout: dict[str, tuple[tuple[int, ...], np.dtype[Any], int]] = {}
        self._open()

    @property
    def complete(self) -> bool:
        """Whether every row is there."""
        return self.done == self.count

    @property
    def names(self) -> list[str]:
        """The arrays it holds."""
        return sorted(self._layout)

    def append(self, **rows: NDArray[Any]) -> None:
        """Add the next rows of every array."""
        lengths = {len(r) for r in rows.values()}
        fits = len(lengths) == 1 and self.done + max(lengths) <= self.count
        if not fits or (self._layout and set(rows) != set(self.names)):
            raise ShapeError(
                f"{', '.join(f'{len(r)} rows of {name}' for name, r in rows.items())} do not go on "
                f"{self.folder.name} at {self.done} of {self.count}.",
                "Give every array the same number of rows, no more than are missing.",
            )
        for name, array in rows.items():
            with write_errors(self.folder / f"{name}.npy", place="cache", resumes=True):
                self._write(name, np.ascontiguousarray(array))
        done = self.done + lengths.pop()
        write_json(self.folder / "progress.json", {"done": done}, place="cache", resumes=True)
        self.done = done

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time append; one that had to wait goes on after what the other did."""
        with locked(self.folder, wait=True):
            self._open()
            yield

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, memory-mapped and read-only; all of it must be there."""
        if not self.complete:
            problem = f"{self.folder} has {self.done} of {self.count} rows."
            raise FileFormatError(problem, "Run the command that made it again; it goes on.")
        if self.count == 0:
            return np.empty(0)
        shape, dtype, offset = self._layout[name]
        return np.memmap(self.folder / f"{name}.npy", dtype, "r", offset, (self.count, *shape))

    def _open(self) -> None:
        progress = self.folder / "progress.json"
        if not (self.folder / "key.json").exists():
            write_json(self.folder / "key.json", self.key, place="cache")
        if progress.exists():
            done = read_json(progress).get("done")
            if isinstance(done, int) and 0 <= done <= self.count:
                self.done = done
        for path in sorted(self.folder.glob("*.npy")) if self.done else ():
            self._layout[path.stem] = self._header(path)
            shape, dtype, offset = self._layout[path.stem]
            needed = offset + self.done * int(np.prod(shape)) * dtype.itemsize
            if path.stat().st_size < needed:
                raise FileFormatError(
                    f"{path} is shorter than its {self.done} finished rows: it was cut off.",
                    f"Delete the folder {self.folder} and run again.",
                )

    def _header(self, path: Path) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        try:
            with path.open("rb") as file:
                np.lib.format.read_magic(file)
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                return tuple(shape[1:]), dtype, file.tell()
        except ValueError as error:
            raise FileFormatError(
                f"{path} is no array file ({error}).", f"Delete the folder {self.folder} and run again."
            ) from error

    def _write(self, name: str, rows: NDArray[Any]) -> None:
        path = self.folder / f"{name}.npy"
        if name not in self._layout:
            with path.open("wb") as file:
                header = {"descr": np.lib.format.dtype_to_descr(rows.dtype), "fortran_order": False}
                np.lib.format.write_array_header_1_0(file, {**header, "shape": (self.count, *rows.shape[1:])})
                self._layout[name] = (rows.shape[1:], rows.dtype, file.tell())
        shape, dtype, offset = self._layout[name]
        if rows.shape[1:] != shape or rows.dtype != dtype:
            raise ShapeError(
                f"{name} has rows of shape {shape} and type {dtype}, and got {rows.shape[1:]} of {rows.dtype}.",
                "Images of one size give grids of one size: preprocess them alike.",
            )
        # Plain writes, not a writable memory map: a full disk is then an error and not a crash.
        with path.open("r+b") as file:
            file.seek(offset + self.done * int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
            file.write(rows.data)
            file.flush()
            os.fsync(file.fileno())
