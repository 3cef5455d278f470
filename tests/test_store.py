"""Stores: filled in order, never stale, the same bytes after a kill."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from platformdirs import windows
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from partswap.errors import FileFormatError, PartswapError, ShapeError, WriteError
from partswap.models.auxiliaries.trained import record_training
from partswap.utils import store as store_module
from partswap.utils.files import locked, write_json
from partswap.utils.store import Store, default_cache


def fill(store, batch=4):
    while not store.complete:
        rows = np.arange(store.done, min(store.done + batch, store.count))
        store.append(squares=(rows**2).astype(np.float32), pairs=np.stack([rows, -rows], 1))
    return store


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_rows_come_back_as_they_went_in(tmp_path):
    store = fill(Store(tmp_path, "numbers", {"a": 1}, 10))
    assert store.array("squares").tolist() == [float(i * i) for i in range(10)]
    assert store.array("pairs").shape == (10, 2)
    assert store.names == ["pairs", "squares"]
    # They are ordinary array files.
    assert np.array_equal(np.load(store.folder / "pairs.npy"), store.array("pairs"))
    again = Store(tmp_path, "numbers", {"a": 1}, 10)
    assert again.complete


def test_another_key_is_another_store(tmp_path):
    first = fill(Store(tmp_path, "numbers", {"model": "a"}, 6))
    for key, count in (({"model": "b"}, 6), ({"model": "a"}, 7), ({"model": "a", "layer": "x"}, 6)):
        other = Store(tmp_path, "numbers", key, count)
        assert other.folder != first.folder
        assert other.done == 0


@given(cuts=st.lists(st.integers(0, 23), max_size=4))
def test_stopping_and_going_on_gives_the_same_bytes(tmp_path_factory, cuts):
    whole = fill(Store(tmp_path_factory.mktemp("whole"), "n", {}, 23))
    cache = tmp_path_factory.mktemp("cut")
    for stop in sorted(cuts):
        store = Store(cache, "n", {}, 23)
        while store.done + 4 <= stop:
            rows = np.arange(store.done, store.done + 4)
            store.append(squares=(rows**2).astype(np.float32), pairs=np.stack([rows, -rows], 1))
        if store.names:  # what a kill leaves: half a row that was written and not yet counted
            with (store.folder / "squares.npy").open("ab") as file:
                file.write(b"??")
    resumed = fill(Store(cache, "n", {}, 23))
    assert contents(resumed.folder) == contents(whole.folder)


SCRIPT = """
import sys, time
import numpy as np
from pathlib import Path
from partswap.utils.store import Store
store = Store(Path(sys.argv[1]), "slow", {"of": "numbers"}, 60)
while not store.complete:
    rows = np.arange(store.done, store.done + 3)
    time.sleep(0.05)
    store.append(wide=np.repeat(rows[:, None], 5000, 1).astype(np.float32))
"""


def test_kill_nine_and_again_is_byte_for_byte_the_same(tmp_path):
    def run(cache, kill_at=None):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(cache)])
        if kill_at is None:
            assert process.wait(60) == 0
            return
        deadline = time.monotonic() + 60
        while done(cache) < kill_at and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL  # it did not end by itself before
        assert kill_at <= done(cache) < 60

    def done(cache):
        progress = next(cache.glob("*/progress.json"), None)
        return 0 if progress is None else json.loads(progress.read_text())["done"]

    (tmp_path / "cut").mkdir()
    for kill_at in (3, 21, 42):
        run(tmp_path / "cut", kill_at)
    run(tmp_path / "cut")
    run(tmp_path / "whole")
    cut, whole = (contents(next((tmp_path / name).iterdir())) for name in ("cut", "whole"))
    assert {n: b for n, b in cut.items() if not n.endswith(".tmp")} == whole


def test_two_that_fill_one_store_do_not_get_into_each_others_way(tmp_path):
    script = SCRIPT.replace("while", "with store.alone():\n  while").replace("\n    ", "\n      ")
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "two")]) for _ in range(2)]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "one")], check=True, timeout=120)
    one, two = (contents(next((tmp_path / name).iterdir())) for name in ("one", "two"))
    assert one == two


def test_a_lock_is_had_by_one_and_goes_with_its_process(tmp_path):
    script = """
import sys, time
from pathlib import Path
from partswap.utils.files import locked
with locked(Path(sys.argv[1]), wait=True) as ours:
    print(ours, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "True\n"
            with locked(tmp_path, wait=False) as ours:
                assert ours is False
        finally:
            holder.kill()
    with locked(tmp_path, wait=True) as ours, locked(tmp_path, wait=False) as again:
        assert (ours, again) == (True, False)


def test_a_folder_that_cannot_be_locked_says_so(tmp_path):
    (tmp_path / ".lock").mkdir()  # no file to lock, as on a disk without locks
    with locked(tmp_path, wait=True) as ours:
        assert ours is None


def test_wrong_rows_are_refused(tmp_path):
    store = Store(tmp_path, "n", {}, 4)
    store.append(a=np.zeros((2, 3), np.float32))
    with pytest.raises(ShapeError, match="do not go on"):
        store.append(b=np.zeros((2, 3), np.float32))
    with pytest.raises(ShapeError, match="do not go on"):
        store.append(a=np.zeros((3, 3), np.float32))
    with pytest.raises(ShapeError, match="rows of shape"):
        store.append(a=np.zeros((2, 4), np.float32))
    with pytest.raises(FileFormatError, match="2 of 4 rows"):
        store.array("a")


def test_a_file_that_was_cut_off_is_named(tmp_path):
    store = fill(Store(tmp_path, "n", {}, 8))
    path = store.folder / "squares.npy"
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(FileFormatError, match=r"squares\.npy is shorter"):
        Store(tmp_path, "n", {}, 8)
    path.write_bytes(b"not an array")
    with pytest.raises(FileFormatError, match="is no array file"):
        Store(tmp_path, "n", {}, 8)
    (store.folder / "progress.json").write_text('{"do')
    with pytest.raises(FileFormatError, match="not valid JSON"):
        Store(tmp_path, "n", {}, 8)


def test_a_full_disk_is_an_error_and_the_run_goes_on_later(tmp_path, monkeypatch):
    store = Store(tmp_path, "n", {}, 6)
    store.append(a=np.arange(2))

    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module.os, "fsync", full)
    with pytest.raises(PartswapError, match=r"a\.npy cannot be written: the disk is full\..*it goes on from here"):
        store.append(a=np.arange(2, 4))
    monkeypatch.undo()
    again = Store(tmp_path, "n", {}, 6)
    assert again.done == 2
    again.append(a=np.arange(2, 6))
    assert again.array("a").tolist() == list(range(6))


def test_the_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTSWAP_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("PARTSWAP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "partswap"


@pytest.mark.parametrize(
    ("system", "place"),
    [(MacOS, "Library/Caches/partswap"), (Unix, ".cache/partswap"), (windows.Windows, "partswap/Cache")],
)
def test_the_cache_is_where_the_system_has_caches_unless_an_old_one_is_there(system, place, tmp_path, monkeypatch):
    for name in ("PARTSWAP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)
    monkeypatch.setattr(platformdirs, "PlatformDirs", system)
    assert default_cache() == tmp_path / place
    (tmp_path / ".cache/partswap").mkdir(parents=True)
    assert default_cache() == tmp_path / ".cache/partswap"


def test_json_is_whole_or_absent(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"b": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def begun(cache: Path) -> Store:
    store = Store(cache, "features", {}, 4)
    store.append(grids=np.zeros((2, 3), np.float32))
    return store


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every write as a read-only disk does; chmod holds nothing back from root."""
    usual, opens = Path.open, os.open

    def refuse(path: object, mode: object = "r", *rest: object, **more: object) -> object:
        if (mode & os.O_CREAT) if isinstance(mode, int) else mode != "rb" and mode != "r":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return (opens if isinstance(mode, int) else usual)(path, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(Path, "mkdir", lambda path, *_, **__: refuse(path, "w"))


@pytest.mark.parametrize(
    ("write", "file"),
    [
        (begun, r"features-\w+/key\.json"),
        (lambda cache: Store(cache, "features", {}, 4).append(grids=np.zeros((2, 3), np.float32)), r"grids\.npy"),
        (lambda cache: record_training(cache, "birds", cache), r"birds\.json"),
    ],
    ids=["new", "begun", "auxiliary"],
)
def test_a_cache_that_cannot_be_written_to_names_the_flag(write, file, tmp_path, monkeypatch):
    if file == r"grids\.npy":
        begun(tmp_path)
    read_only(monkeypatch)
    with pytest.raises(WriteError, match=rf"{file} cannot be written: Read-only file system") as caught:
        write(tmp_path)
    assert "Choose another place (--cache)" in caught.value.in_flags()


def test_a_finished_cache_is_read_from_a_read_only_disk(tmp_path, monkeypatch):
    begun(tmp_path).append(grids=np.ones((2, 3), np.float32))
    read_only(monkeypatch)
    assert Store(tmp_path, "features", {}, 4).array("grids").sum() == 6
