"""One search at a time: who waits, who is too many, and what nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from partswap.errors import PartswapError
from partswap.utils.cancel import CancelledError, CancelToken

Found = TypeVar("Found")
#: Requests that may wait at once, and askers that are remembered.
WAITING, ASKERS = 12, 256
#: Seconds of quiet before something is done that nobody has asked for yet: a slider that is dragged asks more often.
QUIET = 0.05


@dataclass(frozen=True)
class Progress:
    """How far somebody's work has come."""

    running: bool  #: whether it is its turn
    seconds: float = 0.0
    edits: int = 0  #: that the sets have which are looked at


class BusyError(PartswapError):
    """Too many requests are waiting."""


class RequestScheduler:
    """Does one piece of work after the other, on one thread; of each asker only the latest.

    The work is stopped by `cancel` where nobody waits for it any more.
    """

    def __init__(self, waiting: int = WAITING, cancel: CancelToken | None = None) -> None:
        self.cancel = CancelToken() if cancel is None else cancel
        self._most, self._waiting = waiting, 0
        self._worker = ThreadPoolExecutor(1, "explorer")
        self._latest: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()  # ends what is done in spare time
        self._closed = False
        self._running = ("", 0.0)  # whose work is done, and since when

    async def do(self, asker: str, work: Callable[[], Found]) -> Found:
        """Return what `work` returns, once it is its turn; what `asker` asked for before is dropped."""
        ticket = self._ticket(asker)
        with self._lock:
            if self._waiting >= self._most:
                raise BusyError("too many requests are waiting.", "Try again in a moment.")
            self._waiting += 1
        self._stop.set()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._one, asker, ticket, work)
        finally:
            with self._lock:
                self._waiting -= 1

    def _ticket(self, asker: str) -> int:
        """Return a new number for what an asker asks for, which makes the earlier ones outdated."""
        with self._lock:
            self._count += 1
            if asker:
                self._latest[asker] = self._count
                self._latest.move_to_end(asker)
                while len(self._latest) > ASKERS:
                    self._latest.popitem(last=False)
            return self._count

    def stop(self, asker: str) -> None:
        """End the work that is done for an asker."""
        self._ticket(asker)

    def progress(self, asker: str) -> Progress:
        """Return how far the work for an asker has come."""
        whose, begun = self._running
        if not asker or whose != asker:
            return Progress(False)
        return Progress(True, time.monotonic() - begun, self.cancel.progress)

    def _one(self, asker: str, ticket: int, work: Callable[[], Found]) -> Found:
        def outdated() -> bool:
            return bool(asker) and self._latest.get(asker, ticket) != ticket

        try:
            with self.cancel.when(outdated):
                self.cancel.check(0)
                self._running = (asker, time.monotonic())
                return work()
        finally:
            self._running = ("", 0.0)

    def spare(self, works: Iterable[Callable[[], object]]) -> None:
        """Do these, one after the other, until somebody asks for something, or for other such work."""
        if self._closed:
            return
        self._stop.set()
        self._stop = threading.Event()
        self._worker.submit(self._spare, works, self._stop)

    def _spare(self, works: Iterable[Callable[[], object]], stop: threading.Event) -> None:
        if stop.wait(QUIET):
            return
        coming = iter(works)
        with self.cancel.when(stop.is_set):
            while True:
                try:
                    self.cancel.check(0)
                    next(coming)()
                except (CancelledError, StopIteration):
                    return
                except PartswapError:  # whoever asks for it will be told
                    continue

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        self._stop.set()
        self._worker.shutdown(wait=False, cancel_futures=True)
