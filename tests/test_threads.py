"""Threads that are given back come again when they are needed."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, torch
from partswap.utils.threads import release_threads
threads = lambda: len(os.listdir("/proc/self/task"))
torch.set_num_threads(3)
x = torch.ones(2000, 2000)
total = float((x @ x).sum())
busy = threads()
release_threads()
release_threads()
idle = threads()
assert float((x @ x).sum()) == total
assert torch.get_num_threads() == 3
print(busy, idle, threads())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted as Linux shows them")
def test_threads_are_given_back_until_they_are_needed_again():
    told = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    busy, idle, again = map(int, told.stdout.split())
    assert idle < busy
    assert again == busy


@pytest.mark.skipif(sys.platform != "linux", reason="GNU's OpenMP is what torch brings along on Linux")
@pytest.mark.parametrize(
    ("given", "expected"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "PASSIVE"}, "0")]
)
def test_threads_of_commands_wait_asleep_unless_told_otherwise(given, expected):
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    script = "import sys; sys.argv[1:] = ['--version']; from partswap.cli.main import main\n"
    script += "try: main()\nexcept SystemExit: import torch"
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env={**environment, **given, "OMP_DISPLAY_ENV": "verbose"},
    )
    assert f"GOMP_SPINCOUNT = '{expected}'" in done.stderr
