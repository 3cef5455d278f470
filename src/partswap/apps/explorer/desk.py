"""One search at a time: who waits, who is too many, and what nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from partswap.errors import PartswapError

Found = TypeVar("Found")
#: Requests that may wait at once, and askers that are remembered.
WAITING, ASKERS = 12, 256
#: Seconds of quiet before something is done that nobody has asked for yet: a slider that is dragged asks more often.
QUIET = 0.05


class OutdatedError(PartswapError):
    """Whoever asked has asked something else since."""


class BusyError(PartswapError):
    """Too many requests are waiting."""


class Desk:
    """Does one piece of work after the other, on one thread; of each asker only the latest."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._most, self._waiting = waiting, 0
        self._worker = ThreadPoolExecutor(1, "explorer")
        self._latest: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()  # ends what is done in spare time
        self._closed = False
        #: Called by long work now and then; raises `OutdatedError` if nobody waits for it any more.
        self.pulse: Callable[[], None] = lambda: None

    async def do(self, asker: str, work: Callable[[], Found]) -> Found:
        """Return what `work` returns, once it is its turn; what `asker` asked for before is dropped."""
        with self._lock:
            self._count += 1
            ticket = self._count
            if asker:
                self._latest[asker] = ticket
                self._latest.move_to_end(asker)
                while len(self._latest) > ASKERS:
                    self._latest.popitem(last=False)
            if self._waiting >= self._most:
                raise BusyError("too many requests are waiting.", "Try again in a moment.")
            self._waiting += 1
        self._stop.set()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._one, asker, ticket, work)
        finally:
            with self._lock:
                self._waiting -= 1

    def _one(self, asker: str, ticket: int, work: Callable[[], Found]) -> Found:
        def pulse() -> None:
            if asker and self._latest.get(asker, ticket) != ticket:
                raise OutdatedError("something else was asked for since.", "Nothing is to be done.")

        pulse()
        self.pulse = pulse
        return work()

    def spare(self, works: Iterable[Callable[[], object]]) -> None:
        """Do these, one after the other, until somebody asks for something, or for other such work."""
        if self._closed:
            return
        self._stop.set()
        self._stop = threading.Event()
        self._worker.submit(self._spare, works, self._stop)

    def _spare(self, works: Iterable[Callable[[], object]], stop: threading.Event) -> None:
        def pulse() -> None:
            if stop.is_set():
                raise OutdatedError("something was asked for.", "Nothing is to be done.")

        if stop.wait(QUIET):
            return
        self.pulse = pulse
        coming = iter(works)
        while True:
            try:
                pulse()
                next(coming)()
            except (OutdatedError, StopIteration):
                return
            except PartswapError:  # whoever asks for it will be told
                continue

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        self._stop.set()
        self._worker.shutdown(wait=False, cancel_futures=True)
