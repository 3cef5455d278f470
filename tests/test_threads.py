"""Threads that are given back come again when they are needed."""

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
