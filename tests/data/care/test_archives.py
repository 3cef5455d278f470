"""Archives that lie, downloads that break."""

import gzip
import hashlib
import http.server
import io
import re
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile

import pytest
from typer.testing import CliRunner

import trees
from partswap.cli.main import app
from partswap.data import open_dataset
from partswap.data.base import DATASETS, Archive
from partswap.data.care.archives import fetch, get, unpack
from partswap.errors import DataError, SettingError, UnknownNameError

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT).hexdigest()


def write_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, what in members:
            info = tarfile.TarInfo(name)
            if isinstance(what, bytes):
                info.size = len(what)
                tar.addfile(info, io.BytesIO(what))
            else:
                info.type, info.linkname = what
                tar.addfile(info)
    return path


def pack(folder, path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for file in sorted(folder.rglob("*")):
                zipped.write(file, file.relative_to(folder.parent))
    else:
        with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as tar:
            tar.add(folder, folder.name)
    return path


@pytest.mark.parametrize("name", ["cub.tgz", "cub.tar.gz", "cub.tar", "cub.zip"])
def test_an_archive_becomes_a_data_set(tmp_path, name):
    archive = pack(trees.cub(tmp_path / "CUB_200_2011"), tmp_path / name)
    assert unpack(archive, tmp_path / "new" / "data", quiet=True) == ["CUB_200_2011"]
    assert len(open_dataset("cub", tmp_path / "new" / "data")) == 6
    assert [p.name for p in (tmp_path / "new" / "data").iterdir()] == ["CUB_200_2011"]
    with pytest.raises(DataError, match="exists already"):
        unpack(archive, tmp_path / "new" / "data", quiet=True)


EVIL = {
    "upwards": [("../evil.txt", b"x")],
    "upwards later": [("a/../../evil.txt", b"x")],
    "backslash": [("..\\evil.txt", b"x")],
    "absolute": [("/etc/evil.txt", b"x")],
    "drive": [("C:\\evil.txt", b"x")],
    "symlink out": [("link", (tarfile.SYMTYPE, "../outside"))],
    "absolute symlink": [("link", (tarfile.SYMTYPE, "/etc/passwd"))],
    "through a symlink": [("link", (tarfile.SYMTYPE, "..")), ("link/evil.txt", b"x")],
    "hard link out": [("link", (tarfile.LNKTYPE, "../outside"))],
    "device": [("device", (tarfile.CHRTYPE, ""))],
    "pipe": [("pipe", (tarfile.FIFOTYPE, ""))],
}


@pytest.mark.parametrize("trick", EVIL)
def test_evil_tar_archives_write_nothing(tmp_path, trick):
    (tmp_path / "outside").write_text("mine")
    archive = write_tar(tmp_path / "evil.tgz", [("good.txt", b"good"), *EVIL[trick]])
    with pytest.raises(DataError, match="must not be unpacked"):
        unpack(archive, tmp_path / "into", quiet=True)
    assert list((tmp_path / "into").iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.tgz", "into", "outside"]
    assert (tmp_path / "outside").read_text() == "mine"


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "link"])
def test_evil_zip_archives_write_nothing(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as zipped:
        info = zipfile.ZipInfo(name)
        if name == "link":
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr("good.txt", "good")
        zipped.writestr(info, "../outside")
    with pytest.raises(DataError, match="must not be unpacked"):
        unpack(tmp_path / "evil.zip", tmp_path / "into", quiet=True)
    assert list((tmp_path / "into").iterdir()) == []


def test_a_link_that_stays_inside_is_fine(tmp_path):
    members = [("a/file.txt", b"x"), ("a/link", (tarfile.SYMTYPE, "file.txt"))]
    unpack(write_tar(tmp_path / "good.tgz", members), tmp_path / "into", quiet=True)
    assert (tmp_path / "into" / "a" / "link").read_text() == "x"


@pytest.mark.parametrize("suffix", [".tgz", ".zip", ".tar"])
def test_a_damaged_archive_leaves_nothing(tmp_path, suffix):
    archive = pack(trees.cub(tmp_path / "CUB_200_2011"), tmp_path / f"cub{suffix}")
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size * 2 // 3 + 100])
    with pytest.raises(DataError, match="damaged"):
        unpack(archive, tmp_path / "into", quiet=True)
    assert list((tmp_path / "into").iterdir()) == []
    (tmp_path / "text.tgz").write_text("hello")
    with pytest.raises(DataError, match="damaged"):
        unpack(tmp_path / "text.tgz", tmp_path / "into", quiet=True)


def test_a_tar_cut_between_two_members_is_damaged(tmp_path):
    archive = write_tar(tmp_path / "cut.tar", [("a", b"x" * 512), ("b", b"y" * 512)], "w")
    archive.write_bytes(archive.read_bytes()[:1024])
    with pytest.raises(DataError, match="damaged"):
        unpack(archive, tmp_path / "into", quiet=True)


def test_a_compressed_tar_cut_anywhere_is_damaged(tmp_path):
    # Stored rather than deflated, so that the place between two members is known.
    members = [("a", bytes(range(256)) * 2), ("b", b"y" * 512)]
    plain = write_tar(tmp_path / "plain.tar", members, "w").read_bytes()
    archive = tmp_path / "cut.tgz"
    archive.write_bytes(gzip.compress(plain, compresslevel=0))
    whole = archive.read_bytes()
    between = whole.index(plain[:1024]) + 1024
    assert whole[between:].startswith(b"b\0")
    padding = between + 1024 + 600
    for cut in (1, 15, between - 100, between, between + 512, padding, len(whole) - 8, len(whole) - 1):
        archive.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="damaged"):
            unpack(archive, tmp_path / "into", quiet=True)
        assert list((tmp_path / "into").iterdir()) == [], cut
    archive.write_bytes(whole[:-8] + b"\0\0\0\0" + whole[-4:])
    with pytest.raises(DataError, match=r"damaged.*CRC"):
        unpack(archive, tmp_path / "into", quiet=True)
    archive.write_bytes(gzip.compress(plain[:1024]))  # cut off first, compressed then
    with pytest.raises(DataError, match="no end mark"):
        unpack(archive, tmp_path / "into", quiet=True)
    archive.write_bytes(whole)
    assert unpack(archive, tmp_path / "into", quiet=True) == ["a", "b"]


UNPACKING = """
import sys, time
from partswap.data.care import archives
archives._unpack_tar = lambda archive, hidden, *rest: [(hidden / "half").write_text("x"), print("in it", flush=True),
                                                       time.sleep(600)]
archives.unpack(sys.argv[1], sys.argv[2], quiet=True)
"""


def test_what_a_killed_unpacking_left_is_removed(tmp_path):
    archive, into = write_tar(tmp_path / "a.tgz", [("a", b"x")]), tmp_path / "into"
    command = [sys.executable, "-c", UNPACKING, str(archive), str(into)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"in it\n"
            (half,) = into.glob(".unpacking-*/content/half")
            unpack(archive, into, quiet=True)
            assert half.exists()  # somebody works there
        finally:
            process.kill()
    assert half.exists()
    other = write_tar(tmp_path / "b.tgz", [("b", b"x")])
    unpack(other, tmp_path / "elsewhere", quiet=True)
    assert half.exists()
    unpack(other, into, quiet=True)
    assert sorted(p.name for p in into.iterdir()) == ["a", "b"]


def test_a_local_file_with_an_official_name_must_be_that_file(tmp_path, monkeypatch):
    archive = pack(trees.cub(tmp_path / "CUB_200_2011"), tmp_path / "CUB_200_2011.tgz")
    found, official = hashlib.md5(archive.read_bytes()).hexdigest(), DATASETS.get("cub").archives[0].md5
    first = write_tar(tmp_path / "first.tgz", [("first", b"x")])
    with pytest.raises(DataError, match=f"{found}.*{official}.*rename it"):
        get("cub", tmp_path / "into", [first, archive], quiet=True)
    assert not (tmp_path / "into").exists()
    renamed = archive.rename(tmp_path / "mine.tgz")
    assert get("cub", tmp_path / "into", renamed, quiet=True) == ["CUB_200_2011"]
    monkeypatch.setattr(
        DATASETS.get("cub"), "archives", (Archive("https://example.org/mine.tgz", "CUB_200_2011", found),)
    )
    assert get("cub", tmp_path / "again", renamed, quiet=True) == ["CUB_200_2011"]


def test_what_is_no_archive(tmp_path):
    with pytest.raises(DataError, match="no archive"):
        unpack(tmp_path / "none.tgz", tmp_path)
    (tmp_path / "x.rar").write_text("x")
    with pytest.raises(SettingError, match=r"x\.rar"):
        unpack(tmp_path / "x.rar", tmp_path)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, with ranges; /short promises more than it sends, once."""

    asked: list = []  # noqa: RUF012

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.asked.append((self.path, wanted))
        if self.path == "/none":
            self.send_error(404)
            return
        start = int(re.findall(r"\d+", wanted)[0]) if wanted else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        body = CONTENT[start:]
        self.wfile.write(body[: len(body) // 3] if self.path == "/short" and not wanted else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    Handler.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_download_is_whole_or_not_there(server, tmp_path):
    to = tmp_path / "new" / "file.tgz"
    assert fetch(f"{server}/good", to, MD5, quiet=True).read_bytes() == CONTENT
    fetch(f"{server}/good", to, MD5, quiet=True)
    assert len(Handler.asked) == 1  # it was there already
    with pytest.raises(DataError, match="checksum"):
        fetch(f"{server}/good", tmp_path / "other", "0" * 32, quiet=True)
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "other.part").exists()


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    to = tmp_path / "file"
    with pytest.raises(DataError, match="broke off after"):
        fetch(f"{server}/short", to, MD5, quiet=True)
    assert not to.exists()
    had = (tmp_path / "file.part").stat().st_size
    assert fetch(f"{server}/short", to, MD5, quiet=True).read_bytes() == CONTENT
    assert Handler.asked[-1] == ("/short", f"bytes={had}-")
    (tmp_path / "all.part").write_bytes(CONTENT)  # killed between the last byte and the renaming
    assert fetch(f"{server}/good", tmp_path / "all", MD5, quiet=True).read_bytes() == CONTENT


def test_without_a_checksum_a_broken_download_starts_again(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"something else")
    assert fetch(f"{server}/good", tmp_path / "file", quiet=True).read_bytes() == CONTENT


def test_without_network_the_error_names_the_way_out(server, tmp_path):
    for url in (f"{server}/none", "http://127.0.0.1:9/file", "nonsense"):
        with pytest.raises(DataError, match="--archive FILE"):
            fetch(url, tmp_path / "file", quiet=True)


def test_get_downloads_once_and_unpacks(monkeypatch, tmp_path):
    pack(trees.cub(tmp_path / "CUB_200_2011"), tmp_path / "CUB_200_2011.tgz")
    handler = lambda *a: http.server.SimpleHTTPRequestHandler(*a, directory=str(tmp_path))  # noqa: E731
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{running.server_port}/CUB_200_2011.tgz"
        monkeypatch.setattr(DATASETS.get("cub"), "archives", (Archive(url, "CUB_200_2011"),))
        assert get("cub", tmp_path / "into", quiet=True) == ["CUB_200_2011"]
        running.shutdown()
        thread.join()
    assert get("cub", tmp_path / "into", quiet=True) == []
    assert [p.name for p in (tmp_path / "into").iterdir()] == ["CUB_200_2011"]
    with pytest.raises(UnknownNameError, match="Did you mean 'cub'"):
        get("cubs", tmp_path)
    with pytest.raises(UnknownNameError, match=r"no official archive of 'folder'\. Known: cub, dogs, inaturalist\."):
        get("folder", tmp_path)


def test_the_command_line_unpacks_local_archives(tmp_path):
    first = pack(trees.cub(tmp_path / "CUB_200_2011"), tmp_path / "a.tgz")
    second = write_tar(tmp_path / "b.tar", [("attributes.txt", b"1 x")], "w")
    into = tmp_path / "into"
    result = CliRunner().invoke(
        app, ["data", "get", "cub", str(into), "--archive", str(first), "--archive", str(second)]
    )
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in into.iterdir()) == ["CUB_200_2011", "attributes.txt"]


def test_official_archives_are_well_formed():
    official = {name: DATASETS.get(name).archives for name in DATASETS if DATASETS.get(name).archives}
    assert set(official) == {"cub", "dogs", "inaturalist"}
    for archives in official.values():
        for archive in archives:
            assert archive.url.startswith("http")
            assert archive.file.endswith((".tgz", ".tar", ".tar.gz"))
            assert re.fullmatch(r"[0-9a-f]{32}", archive.md5)
