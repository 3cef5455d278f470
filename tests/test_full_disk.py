"""A disk without room, for all that writes: the error names the file and the fix, and nothing half-written stays."""

from __future__ import annotations

import errno
import hashlib
import http.server
import os
import re
import resource
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import partswap.cli.main as command_line
from partswap.apps.report.page import write_report
from partswap.apps.study.backup import back_up
from partswap.apps.study.server import open_site
from partswap.data.care.archives import fetch, unpack
from partswap.errors import PartswapError, WriteError
from partswap.inputs.images import save_image
from partswap.inputs.preprocess import Preprocess
from partswap.models.checkpoints import Classifier, save_trained
from partswap.runs.figures import save_stack
from partswap.runs.records import write_table
from partswap.training.loop import Recipe, fit
from partswap.utils.files import remove_leftovers, write_bytes, write_json, write_text, writing
from partswap.utils.store import Store
from partswap.utils.tables import ResultTable
from report_files import explanation, make_report
from study_files import make_study

ROOM = 300  #: bytes that a file may have


@contextmanager
def little_room(size: int = ROOM) -> Iterator[None]:
    """Let the system refuse larger files, as a full disk does in the middle of writing one."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def noise(side: int = 64) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8))


def classifier() -> Classifier:
    return Classifier(nn.Linear(64, 8), "timm:test_resnet", list("abcdefgh"), Preprocess(32))


def train(folder: Path) -> None:
    def batches(_epoch: int, first: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(first, 2):
            yield torch.ones(4, 64), torch.zeros(4, dtype=torch.long)

    fit(nn.Linear(64, 8), batches, 2, Recipe(epochs=1, batch=4, lr=0.1), folder, loss=F.cross_entropy)


def fill(folder: Path) -> None:
    Store(folder, "features", {}, 4).append(grids=np.ones((4, 100), np.float32))


def unpack_large(folder: Path) -> None:
    unpack(folder.parent / "birds.tar", folder)


TABLE = ResultTable("A table", ["what"], [["x" * 600]], "")
#: What writes, the file or folder that its error names, and whether the same command goes on where it stopped.
WRITERS: dict[str, tuple[Callable[[Path], object], str, bool]] = {
    "text": (lambda folder: write_text(folder / "a.txt", "x" * 600), "a.txt", False),
    "json": (lambda folder: write_json(folder / "a.json", list(range(600))), "a.json", False),
    "counterfactual": (lambda folder: explanation(0, edits=5).save(folder / "cf.json"), "cf.json", False),
    "network": (lambda folder: save_trained(classifier(), folder), "model.safetensors", True),
    "checkpoint": (train, r"checkpoint-0001-000000\.safetensors", True),
    "cache": (fill, r"grids\.npy", True),
    "edits": (lambda folder: write_table(pa.table({"a": np.arange(600)}), folder / "a.parquet"), "a.parquet", True),
    "examples": (lambda folder: save_stack([noise()], folder / "goyal.png"), "goyal.png", True),
    "picture": (lambda folder: save_image(noise(), folder / "sheet.jpg"), "sheet.jpg", False),
    "table": (lambda folder: TABLE.save(folder, "tune"), "tune.md", False),
    "report file": (lambda folder: write_report(make_report(4), folder / "report.html"), "report.html", False),
    "report folder": (lambda folder: write_report(make_report(4), folder), r"report\.js", False),
    "study": (make_study, r"images/[0-9a-f]{32}\.jpg", False),
    "unpacked": (unpack_large, "", False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_without_room_the_error_names_file_and_fix_and_nothing_stays(name: str, tmp_path: Path) -> None:
    write, file, resumes = WRITERS[name]
    (folder := tmp_path / "new").mkdir()
    with tarfile.open(tmp_path / "birds.tar", "w") as tar:
        noise().save(tmp_path / "bird.png")
        tar.add(tmp_path / "bird.png", "birds/bird.png")
    with little_room(), pytest.raises(WriteError) as caught:
        write(folder)
    message = caught.value.in_flags()
    place = re.escape(str(folder)) if name != "cache" else re.escape(str(folder)) + "/features-[0-9a-f]+"
    assert re.match(rf"{place}{'/' if file else ''}{file} cannot be written: the disk is full\. Make room", message)
    assert message.endswith("it goes on from here." if resumes else "and run again.")
    whole = [p for p in folder.rglob("*") if p.is_file() and p.name != ".lock" and p.stat().st_size > ROOM]
    assert whole == []
    assert not [p for p in folder.rglob("*") if re.search(r"\.tmp|\.part$", p.name)]
    write(folder)  # with room, the same command in the same place


def test_a_download_without_room_goes_on_later(tmp_path: Path) -> None:
    content = bytes(range(256)) * 8
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "birds").write_bytes(content)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path / "there"))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        url, to = f"http://127.0.0.1:{running.server_port}/birds", tmp_path / "birds"
        for md5, named in ((hashlib.md5(content).hexdigest(), r"birds\.part"), (None, "birds")):
            with little_room(), pytest.raises(WriteError, match=rf"{named} cannot be written: the disk is full\. Make"):
                fetch(url, to, md5, quiet=True)
            assert not to.exists()
            assert fetch(url, to, md5, quiet=True).read_bytes() == content
            to.unlink()
        running.shutdown()
        thread.join()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["there"]


def test_a_backup_without_room_leaves_nothing(tmp_path: Path) -> None:
    make_study(tmp_path / "study")
    site = open_site(tmp_path / "study")
    site.database.add()
    out = tmp_path / "backups" / "monday.db"
    with (
        little_room(),
        pytest.raises(WriteError, match=r"monday\.db cannot be written: .*Make room, or choose another"),
    ):
        back_up(site.database, out)
    assert list(out.parent.iterdir()) == []
    assert back_up(site.database, out) == 0
    assert [p.name for p in out.parent.iterdir()] == ["monday.db"]
    site.database.close()


def test_a_device_is_written_to_itself_and_a_full_one_is_named() -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    with pytest.raises(
        WriteError, match=r"^/dev/full cannot be written: the disk is full\. Make room, or choose another"
    ):
        write_text(Path("/dev/full"), "x")
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_place_that_may_not_be_written_is_named(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)  # root may write everywhere
    with pytest.raises(WriteError, match=rf"a\.json cannot be written: {os.strerror(number)}\. Choose another place"):
        write_json(tmp_path / "a.json", {})


def test_what_is_no_fault_of_the_place_is_not_blamed_on_it(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "a"):
        1 / 0  # noqa: B018
    with pytest.raises(PartswapError, match=r"^mine\.$"), writing(tmp_path / "a"):
        raise PartswapError("mine.")
    assert list(tmp_path.iterdir()) == []


def test_writers_of_one_file_do_not_collide(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with writing(path) as first, writing(path) as second:
        first.write_bytes(b"1" * 9)
        second.write_bytes(b"2" * 5)
    assert path.read_bytes() == b"1" * 9  # the last to finish

    def write(digit: bytes) -> None:
        for _ in range(50):
            write_bytes(path, digit * 1000)

    threads = [threading.Thread(target=write, args=(digit,)) for digit in (b"3", b"4", b"5")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        content = path.read_bytes()
        assert content == content[:1] * len(content)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_link_stays_one_and_what_a_killed_writer_left_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "a")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "a").read_text() == "x"
    (tmp_path / "there" / ".a.1-00.tmp").touch()
    remove_leftovers(tmp_path)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "link", "there"]


def test_the_command_line_shows_no_empty_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit):
        command_line.main()
    assert "error: No space left on device" in capsys.readouterr().err


def test_a_full_disk_on_the_command_line_is_one_line(tmp_path: Path) -> None:
    with little_room():
        result = CliRunner().invoke(command_line.app, ["aviary", "sheet", str(tmp_path / "sheet.png")])
    assert isinstance(result.exception, WriteError)
    assert "sheet.png cannot be written: the disk is full" in result.exception.in_flags()
    assert list(tmp_path.iterdir()) == []
