"""Get data sets: download official archives, unpack archives safely."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import shutil
import ssl
import stat
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, cast

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from partswap.data.base import DATASETS
from partswap.errors import DataError, SettingError, UnknownNameError, suggest
from partswap.utils.files import locked, make_folder, write_errors, writing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHUNK = 1 << 20
BLOCK = 512  # of a tar file
GZIP = b"\x1f\x8b"  # how such a file begins
HIDDEN = ".unpacking-"
NETWORK = (urllib.error.URLError, http.client.HTTPException, ssl.SSLError, TimeoutError, ConnectionError, ValueError)


def get(
    name: str, into: str | Path, archive: str | Path | Sequence[str | Path] | None = None, *, quiet: bool = False
) -> list[str]:
    """Download and unpack a data set, or unpack archives that are already here.

    Parameters
    ----------
    name : str
        A data set with official archives.
    into : str or Path
        The folder to make it in; what is already there is not fetched again.
    archive : str or Path or sequence of them, optional
        Local files to unpack instead of downloading. One that is called like an official archive must have its
        checksum.
    quiet : bool
        Whether to leave out the progress bars.

    Returns
    -------
    list of str
        What was made in the folder.
    """
    into = Path(into)
    officials = DATASETS.get(name).archives if name in DATASETS else ()
    if archive is not None:
        files = [Path(file) for file in ([archive] if isinstance(archive, str | Path) else archive)]
        sums = {official.file: official.md5 for official in officials}
        for file in files:  # all of them before the first is unpacked
            md5 = sums.get(file.name)
            if md5 is not None and file.is_file() and (found := _md5(file, quiet)) != md5:
                raise DataError(
                    f"{file} has the checksum {found}, the official archive of that name {md5}.",
                    "Download it again; if it is meant to be another file, rename it.",
                )
        return [made for file in files for made in unpack(file, into, quiet=quiet)]
    if not officials:
        known = [each for each in DATASETS if DATASETS.get(each).archives]
        fix = f"{suggest(name, known)} Known: {', '.join(known)}.".strip()
        raise UnknownNameError(f"there is no official archive of {name!r}.", fix)
    made = []
    for official in officials:
        if not (into / official.makes).exists():
            file = fetch(official.url, into / official.file, official.md5, quiet=quiet)
            made += unpack(file, into, quiet=quiet)
            file.unlink()
    return made


def fetch(url: str, to: str | Path, md5: str | None = None, *, quiet: bool = False) -> Path:
    """Download a file to `to`, which exists only once it is whole; a file with another checksum is removed.

    If the checksum is known the download goes to ``<to>.part``, and after it broke off the next call goes on where it
    stopped; without a checksum the halves might be of different files.
    """
    to = Path(to)
    if to.exists() and (md5 is None or _md5(to, quiet) == md5):
        return to
    if md5 is None:
        with writing(to) as temporary:
            _download(url, temporary, quiet)
        return to
    part = to.with_name(to.name + ".part")
    with write_errors(part, resumes=True), _alone(part):
        _download(url, part, quiet)
        if (found := _md5(part, quiet)) != md5:
            part.unlink()
            problem = f"what {url} gave has the checksum {found}, not {md5}."
            raise DataError(problem, "Try again; if it stays so, the file has changed or the network alters it.")
        os.replace(part, to)
    return to


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Let one process at a time add to a download; one that leaves nothing in it leaves no file."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        try:
            if fcntl is not None:  # a lock beside it would stay
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):  # else this file system knows no locks
                raise DataError(f"another process is downloading {part}.", "Wait for it, then run again.") from error
        try:
            yield
        finally:
            if part.exists() and not part.stat().st_size:
                part.unlink()


def unpack(archive: str | Path, into: str | Path, *, quiet: bool = False) -> list[str]:
    """Unpack an untrusted .tar, .tar.gz, .tgz or .zip; return the names it made in the folder `into`.

    Nothing is written outside `into`, and names appear there only once all is unpacked: until then they lie in a
    hidden folder. Such folders of killed processes are removed. A name that exists already is an error.
    """
    archive, into = Path(archive), Path(into)
    if not archive.is_file():
        raise DataError(f"there is no archive {archive}.", "Check the path.")
    is_zip = archive.suffix.lower() == ".zip"
    if not is_zip and not archive.name.lower().endswith((".tar", ".tar.gz", ".tgz")):
        raise SettingError(f"{archive} is not an archive that can be unpacked.", "Pass .tar, .tar.gz, .tgz or .zip.")
    make_folder(into)
    with write_errors(into), _hidden_folder(into) as hidden:
        try:
            with _progress(quiet) as progress:
                (_unpack_zip if is_zip else _unpack_tar)(archive, hidden, into, progress)
        except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{archive} is damaged or not an archive ({error}).", "Download it again.") from error
        made = sorted(path.name for path in hidden.iterdir())
        for name in made:
            os.replace(hidden / name, into / name)
    return made


@contextmanager
def _hidden_folder(into: Path) -> Iterator[Path]:
    """Make a folder inside a hidden, temporary one; remove the hidden folders of killed processes."""
    for left in into.glob(f"{HIDDEN}*"):
        with locked(left, wait=False) as abandoned:
            if abandoned:
                shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            left.rmdir()  # Windows removes no file that is locked, so nor its folder
    while True:
        hidden = Path(tempfile.mkdtemp(prefix=HIDDEN, dir=into))
        try:
            with locked(hidden, wait=False) as ours:
                if ours is not False:  # False: another process took it for abandoned before it was locked
                    content = hidden / "content"
                    content.mkdir(parents=True)
                    yield content
                    return
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


def _unpack_tar(archive: Path, hidden: Path, into: Path, progress: Progress) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise SettingError("this Python cannot unpack archives safely.", "Use Python 3.11.4 or later.")
    with progress.open(archive, "rb", description=f"unpacking {archive.name}") as file, archive.open("rb") as start:
        # Not tarfile's own gzip: it takes a file that breaks off for its end and looks at no checksum.
        zipped = start.read(len(GZIP)) == GZIP
        stream = _Stream(cast(IO[bytes], gzip.GzipFile(fileobj=file)) if zipped else file)
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as tar:
            for member in tar:
                _check_name(archive, member.name, into)
                try:
                    tar.extract(member, hidden, filter="data")  # refuses devices and links to the outside
                except tarfile.FilterError as error:
                    raise _evil(archive, member.name, str(error)) from error
        stream.check_end()


class _Stream:
    """A tar file that remembers its last block, which shows whether it was cut off between two members."""

    def __init__(self, source: IO[bytes]) -> None:
        self.source, self.last = source, b""

    def read(self, size: int = -1) -> bytes:
        data = self.source.read(size)
        self.last = (data if len(data) >= BLOCK else self.last + data)[-BLOCK:]
        return data

    def check_end(self) -> None:
        """Read the rest, so that checksums are checked, and raise an error if there is no end mark."""
        while self.read(CHUNK):
            pass
        if self.last != bytes(BLOCK):
            raise tarfile.ReadError("it has no end mark: it is cut off, or still being written")


def _unpack_zip(archive: Path, hidden: Path, into: Path, progress: Progress) -> None:
    with zipfile.ZipFile(archive) as zipped:
        members = zipped.infolist()
        for member in members:
            _check_name(archive, member.filename, into)
            if stat.S_ISLNK(member.external_attr >> 16):
                raise _evil(archive, member.filename, "it is a link")
        task = progress.add_task(f"unpacking {archive.name}", total=sum(m.file_size for m in members))
        for member in members:
            zipped.extract(member, hidden)
            progress.advance(task, member.file_size)


def _check_name(archive: Path, name: str, into: Path) -> None:
    """Raise an error if a member would lie outside the folder or over something that is there.

    tarfile and zipfile would make a name of their own out of an absolute one, and know the other system's separators
    only on that system.
    """
    windows = PureWindowsPath(name)  # knows both separators, and drives
    if windows.is_absolute() or windows.drive or windows.root or PurePosixPath(name).is_absolute():
        raise _evil(archive, name, "its path is absolute")
    if ".." in windows.parts:
        raise _evil(archive, name, "its path leads upwards")
    top = next((part for part in PurePosixPath(name).parts if part != "."), None)
    if top is not None and (into / top).exists():
        raise DataError(f"{into / top} exists already.", "Remove it or unpack into another folder.")


def _evil(archive: Path, member: str, why: str) -> DataError:
    return DataError(f"{archive} holds {member!r}, which must not be unpacked: {why}.", "Do not use this archive.")


def _download(url: str, part: Path, quiet: bool) -> None:
    try:
        _read(url, part, quiet)
    except NETWORK as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{url} cannot be downloaded ({reason}).",
            "Check the network; or download it elsewhere and pass the file (partswap data get ... --archive FILE).",
        ) from error


def _read(url: str, part: Path, quiet: bool) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "partswap"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        error.close()
        if have and error.code == 416:  # there is no more; the checksum tells whether the file is whole
            return
        raise
    with response:
        if response.status != 206:
            have = 0  # the server sends all of it
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if have else "wb") as file, _progress(quiet) as progress:
            task = progress.add_task(f"downloading {part.stem}", total=total, completed=have)
            while block := response.read(CHUNK):
                file.write(block)
                progress.advance(task, len(block))
    got = part.stat().st_size
    if total is not None and got < total:
        raise ConnectionError(f"it broke off after {got} of {total} bytes; run it again to go on")


def _md5(path: Path, quiet: bool) -> str:
    with _progress(quiet) as progress, progress.open(path, "rb", description=f"checking {path.name}") as file:
        digest = hashlib.md5(usedforsecurity=False)
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _progress(quiet: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet)
