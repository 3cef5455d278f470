"""The threads that torch computes with."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch


def release_threads() -> None:
    """Give back the threads that OpenMP keeps ready for the calling thread, which has done its part.

    Every thread that computes gets such threads of its own. Once there are more of them than cores, none waits for
    work without going to sleep, and whoever computes later takes half as long again. Where OpenMP is another one than
    torch brings along, nothing is done.
    """
    home = Path(torch.__file__).parent
    for place in (home / "lib", home.parent / "torch.libs"):
        for path in sorted(place.glob("lib*omp*.so*")):
            pause = getattr(ctypes.CDLL(str(path)), "omp_pause_resource_all", None)
            if pause is not None:
                pause(1)  # soft: they come back when they are needed
