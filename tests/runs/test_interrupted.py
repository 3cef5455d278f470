"""Ctrl-C in a terminal goes to a run and all of its workers at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from partswap.runs import workers
from partswap.runs.config import RunConfig
from partswap.runs.run import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up as Linux shows them")


def workers_of(parent: int) -> list[int]:
    """Return the worker processes of a process, ended ones left out."""
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, owner = place.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
            if int(owner) == parent and state != "Z" and b"spawn_main" in place.joinpath("cmdline").read_bytes():
                pids.append(int(place.name))
    return pids


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ctrl_c_while_workers_start_ends_all_of_them_with_one_line(whole_run: RunConfig, tmp_path: Path) -> None:
    """It takes as long as two Pythons need to import torch: that they are still at it is the point."""
    config = whole_run.with_(out=tmp_path / "run", methods=("goyal",), settings={}, queries=2, workers=2)
    flags = {"data": "aviary", "model": "aviary:vgg", "auxiliary": "aviary", "option": "per_class=2", "method": "goyal"}
    numbers = {"distractors": 2, "queries": 2, "shard": 1, "workers": 2, "precision": "float32"}
    places = {"cache": whole_run.cache, "out": config.out}
    named = [part for name, value in (flags | numbers | places).items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "partswap", "run", *named]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **pipes)  # type: ignore[call-overload]
    while not (started := workers_of(process.pid)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert said.strip().splitlines()[-1].startswith("interrupted: ")
    assert not any(map(is_alive, started))
    assert run(config.with_(workers=1)).complete


def test_a_ctrl_c_is_put_off_and_not_lost_while_a_worker_starts() -> None:
    reached = []

    def start() -> None:
        with workers._undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)  # the worker is in the list of those to be stopped

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    child = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set()))"
    with workers._undisturbed():
        assert subprocess.check_output([sys.executable, "-c", child], text=True).strip() == "True"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())
