"""Files that are whole or absent, folders that are one process's own, and errors that name what cannot be written."""

from __future__ import annotations

import errno
import glob
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from partswap.errors import FileFormatError, PartswapError, SettingError, WriteError

#: The file that is locked, in the folder that is meant.
LOCK = ".lock"
#: Files that are being written.
TEMPORARY = ".*.tmp"
#: What a full disk says: there is no room, not for this user, not for so large a file.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RESUMES = ": it goes on from here."


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
