"""Arrays on disk that are filled row by row and survive being killed.

A store is a folder: ``key.json`` says what the arrays were computed from, ``progress.json`` how many rows are
done, and each array is one ``.npy`` file. Rows are written before the progress that counts them, so a killed run
goes on after the last counted row, and the finished files are the same, byte for byte, as if nothing had happened.
The folder's name holds a digest of the key: other inputs, another folder, so nothing stale is ever read.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from partswap.errors import FileFormatError, PartswapError, SettingError, ShapeError, WriteError

#: The file that is locked, in the folder that is meant.
LOCK = ".lock"
#: Files that are being written.
TEMPORARY = ".*.tmp"
#: What a full disk says: there is no room, not for this user, not for so large a file.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RESUMES = ": it goes on from here."


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


@contextmanager
def write_errors(path: Path | str, *, place: str = "", resumes: bool = False) -> Iterator[None]:
    """Let what the system has against writing `path` be a partswap error that names it and what to do.

    Parameters
    ----------
    path : pathlib.Path or str
        The file or folder that is written, as messages name it.
    place : str
        The argument it was given by (see `partswap.errors.ARGUMENTS`).
    resumes : bool
        The same command, run again, goes on where it stopped.
    """
    try:
        yield
    except PartswapError:
        raise
    except Exception as error:  # safetensors has a class of its own for what the system says
        number = _number_of(error)
        if number is None:
            raise
        elsewhere = f"choose another place{f' ({{{place}}})' if place else ''}"
        if number in FULL:
            reason, fix = "the disk is full", f"Make room, or {elsewhere}, and run again{RESUMES if resumes else '.'}"
        else:
            reason, fix = os.strerror(number), f"C{elsewhere[1:]}, or change its permissions."
        raise WriteError(f"{path} cannot be written: {reason}.", fix) from error


def _number_of(error: Exception) -> int | None:
    """Return the system's number of an error, also of one that came through Rust."""
    if isinstance(error, OSError):
        return error.errno
    number = re.search(r"\(os error (\d+)\)", str(error))
    return int(number[1]) if number else None


@contextmanager
def writing(
    path: Path, *, private: bool = False, durable: bool = False, place: str = "", resumes: bool = False
) -> Iterator[Path]:
    """Give another name to write to; once that is done the file takes the name `path`, and never if it is not.

    Whatever goes wrong, nothing is left; `write_errors` says how that is told. Every writer has a name of its own,
    so the last of several wins. A device is written to itself.

    Parameters
    ----------
    path : pathlib.Path
        The file; folders that are missing are made.
    private : bool
        For its owner only.
    durable : bool
        Wait until the disk has it.
    place, resumes
        See `write_errors`.
    """
    with write_errors(path, place=place, resumes=resumes):
        target = Path(os.path.realpath(path))
        if target.exists() and not (target.is_file() or target.is_dir()):
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
        try:
            mode = _make(temporary, 0o600 if private else 0o666)
            yield temporary
            temporary.chmod(mode)  # safetensors makes its files for their owner only
            if durable:
                _sync(temporary)
            os.replace(temporary, target)
            if durable:
                _sync(target.parent)  # the new name too, before anyone counts on it
        except BaseException:
            for leftover in temporary.parent.glob(f"{glob.escape(temporary.name)}*"):  # SQLite makes several
                leftover.unlink(missing_ok=True)
            raise


def _make(path: Path, mode: int) -> int:
    """Make an empty file and return the mode it has: what is asked for, less what the umask forbids."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        return stat.S_IMODE(os.fstat(file).st_mode)
    finally:
        os.close(file)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def remove_leftovers(folder: Path) -> None:
    """Remove what `writing` left in a folder, and in those in it, when its process was killed; nobody may write now."""
    for leftover in folder.rglob(TEMPORARY):
        leftover.unlink(missing_ok=True)


def make_folder(path: Path, *, place: str = "") -> None:
    """Make a folder and those it is in; see `write_errors`."""
    with write_errors(path, place=place):
        path.mkdir(parents=True, exist_ok=True)


def write_bytes(path: Path, content: bytes | bytearray | memoryview, **how: Any) -> None:
    """Write a file that is whole or absent; see `writing`."""
    with writing(path, **how) as temporary:
        temporary.write_bytes(content)


def write_with(path: Path, write: Callable[[io.BytesIO], object], **how: Any) -> None:
    """Write what `write` puts into an open file, likewise.

    It is a file in memory: neither Pillow nor Arrow notices every disk that is full.
    """
    file = io.BytesIO()
    write(file)
    write_bytes(path, file.getbuffer(), **how)


def write_text(path: Path, content: str, **how: Any) -> None:
    """Write a text likewise, in UTF-8."""
    write_bytes(path, content.encode(), **how)


def write_json(path: Path, content: object, **how: Any) -> None:
    """Write JSON likewise."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n", **how)


def read_json(path: Path) -> Any:
    """Read JSON; a file that is none raises a partswap error."""
    try:
        return json.loads(path.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not valid JSON ({error}).", "Delete it and run again.") from error


def check_writable(path: Path, *, folder: bool) -> None:
    """Raise an error if a folder, or a file, of this name cannot be written; nothing is made."""
    if path.exists() and path.is_dir() != folder:
        raise SettingError(
            f"{path} is a {'file' if folder else 'folder'}, where a {'folder' if folder else 'file'} is to be written.",
            "Choose another name ({out}).",
        )
    place = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if place != path and not place.is_dir():
        raise SettingError(f"{path} cannot be made: {place} is a file.", "Choose another place ({out}).")
    if not os.access(place, os.W_OK):
        raise SettingError(f"{place} cannot be written to.", "Choose another place ({out}), or change its permissions.")


def check_cache(folder: Path | None) -> None:
    """Raise an error if a folder of caches, by default the user's, cannot be written; nothing is made."""
    try:
        check_writable(folder or default_cache(), folder=True)
    except SettingError as error:
        problem = f"the cache folder cannot be used: {error.problem}"
        raise SettingError(problem, "Choose another ({cache}).") from error


def make_private(path: Path, *, folder: bool = False) -> None:
    """Make a file or folder that only its owner can read, before anything is in it; one that is there becomes so."""
    if folder:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    elif not path.exists():
        path.touch(mode=0o600)
    with suppress(OSError):  # someone else's, who decides who reads it, or on a disk that cannot be written
        path.chmod(0o700 if folder else 0o600)


def ensure_own_folder(folder: Path, what: str, marks: Sequence[str], leftovers: Sequence[str] = ()) -> None:
    """Raise an error if a folder that `what` is to be written to is someone else's; nothing is written.

    It is ours if it has one of the files `marks`, or nothing but `leftovers` of a process that was killed before it
    wrote one (patterns of names; a lock always counts as such).
    """
    if not folder.exists() or any((folder / name).exists() for name in marks):
        return
    if not folder.is_dir():
        raise SettingError(f"{folder} is a file, where the folder of {what} is to be.", "Choose another ({out}).")
    strangers = [
        p.name for p in folder.iterdir() if not any(fnmatch(p.name, pattern) for pattern in (LOCK, *leftovers))
    ]
    if strangers:
        raise SettingError(
            f"{folder} holds something else ({min(strangers)!r}), and no {what}.",
            "Choose a new or empty folder ({out}).",
        )


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[bool | None]:
    """Lock a folder while the context lasts; yields whether it could be had, None where there are no such locks.

    What is locked is an empty file ``.lock`` in it. The lock goes with the process, however it ends; the file stays,
    because others may wait for it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK)
    ours: bool | None = True
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        ours = False
    except (OSError, NotImplementedError):  # this file system knows no locks, or the file cannot be made
        ours = None
    try:
        yield ours
    finally:
        lock.release()


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
