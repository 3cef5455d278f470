"""How much memory searches hold, and how freed memory is given back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn


def storages(value: Any) -> dict[int, int]:
    """Return the bytes of the tensors that a value holds, by address: views count once, modules not at all."""
    sizes: dict[int, int] = {}
    visited: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if id(item) in visited or isinstance(item, nn.Module | str | int | float | bool | None):
            continue
        visited.add(id(item))
        if isinstance(item, Tensor):
            storage = item.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        elif type(item).__module__.startswith("partswap."):
            waiting += vars(item).values()
    return sizes


class Heap:
    """Freed memory, which goes back to the system now and then.

    Small pieces in use keep large free ones in the C library's heap, so that a process grows with every problem.
    """

    def __init__(self) -> None:
        self._least = resident_bytes()

    def trim(self, slack: float) -> None:
        """Give freed memory back if the process has grown by more than `slack` bytes since that was last done."""
        trim = _trim()
        if trim is not None and resident_bytes() > self._least + slack:
            trim(0)
            self._least = resident_bytes()
        self._least = min(self._least, resident_bytes())


def resident_bytes() -> int:
    """Return how much memory the process takes, 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@cache
def _trim() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; other libraries have none
