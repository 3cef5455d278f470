"""Figures go into files and buffers, whole or not at all; what goes wrong names the file and the fix."""

import io
import resource

import pytest
from PIL import Image

from partswap.errors import SettingError, WriteError


@pytest.fixture
def little_room():
    """Let no file grow beyond a few bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("format", "start"),
    [(None, b"\x89PNG"), ("PDF", b"%PDF"), ("svg", b"<?xml"), ("jpg", b"\xff\xd8"), ("html", b"<!doctype")],
)
def test_a_buffer_is_drawn_into(format, start, adjacent):
    buffer = io.BytesIO()
    adjacent.plot(buffer, kind="best", format=format)
    assert buffer.getvalue().startswith(start)


def test_an_open_file_is_drawn_into(adjacent, tmp_path):
    with open(tmp_path / "why.jpg", "wb") as file:  # its name says the format
        adjacent.plot(file, kind="best")
    assert Image.open(tmp_path / "why.jpg").format == "JPEG"
    text = io.StringIO()
    adjacent.plot(text, kind="best", format="svg")
    assert "<text" in text.getvalue()
    with pytest.raises(SettingError, match="for bytes"):
        adjacent.plot(io.StringIO(), kind="best")
    with pytest.raises(SettingError, match="format is 'gif'"):
        adjacent.plot(io.BytesIO(), format="gif")
    buffer = io.BytesIO()
    adjacent.plot(kind="best").savefig(buffer, format="png")
    assert Image.open(buffer).width > 500


def test_a_full_disk_is_an_error_with_a_fix_and_leaves_the_old_figure(adjacent, tmp_path, little_room):
    path = tmp_path / "why.png"
    adjacent.plot(path, kind="best")
    before = path.read_bytes()
    little_room()
    with pytest.raises(WriteError, match=r"why\.png cannot be written: the disk is full\. Make room"):
        adjacent.plot(path, kind="best")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["why.png"]


def test_a_full_disk_behind_an_open_file_is_named_too(adjacent):
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(WriteError, match=r"/dev/full cannot be written"),
    ):
        adjacent.plot(full, kind="best", format="png")


def test_a_place_that_cannot_be_written_is_named(adjacent, tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder.png").mkdir()
    for path in (tmp_path / "file" / "why.png", tmp_path / "folder.png"):
        with pytest.raises(WriteError, match=rf"{path} cannot be written: .*Choose"):
            adjacent.plot(path, kind="best")
