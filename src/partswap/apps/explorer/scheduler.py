"""One search at a time: the queue of requests, its limit, and the end of searches that nobody waits for any more."""

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

Result = TypeVar("Result")
#: Requests that may wait at once, and clients whose latest request is known.
WAITING, CLIENTS = 12, 256
#: Seconds without a request before prefetching starts: a slider that is dragged sends requests more often.
QUIET = 0.05


@dataclass(frozen=True)
class Progress:
    """How far the work for a client has come."""

    running: bool  #: False: it waits for its turn
    seconds: float = 0.0
    edits: int = 0  #: edits of the sets that are evaluated


class BusyError(PartswapError):
    """Too many requests are waiting."""


class RequestScheduler:
    """Does one piece of work after the other, on one thread; of each client only the latest request.

    Work that nobody waits for any more is stopped by `cancel`.
    """

    def __init__(self, waiting: int = WAITING, cancel: CancelToken | None = None) -> None:
        self.cancel = CancelToken() if cancel is None else cancel
        self._most, self._waiting = waiting, 0
        self._worker = ThreadPoolExecutor(1, "explorer")
        self._latest: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()  # ends prefetching
        self._closed = False
        self._running = ("", 0.0)  # client whose work is done, and its start

    async def do(self, client: str, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, once it is its turn; earlier requests of the client are dropped."""
        ticket = self._ticket(client)
        with self._lock:
            if self._waiting >= self._most:
                raise BusyError("too many requests are waiting.", "Try again in a moment.")
            self._waiting += 1
        self._stop.set()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._run, client, ticket, work)
        finally:
            with self._lock:
                self._waiting -= 1

    def _ticket(self, client: str) -> int:
        """Return a new number for a request, which makes earlier ones of the same client outdated."""
        with self._lock:
            self._count += 1
            if client:
                self._latest[client] = self._count
                self._latest.move_to_end(client)
                while len(self._latest) > CLIENTS:
                    self._latest.popitem(last=False)
            return self._count

    def stop(self, client: str) -> None:
        """End the work that is done for a client."""
        self._ticket(client)

    def progress(self, client: str) -> Progress:
        """Return how far the work for a client has come."""
        running, start = self._running
        if not client or running != client:
            return Progress(False)
        return Progress(True, time.monotonic() - start, self.cancel.progress)

    def _run(self, client: str, ticket: int, work: Callable[[], Result]) -> Result:
        def outdated() -> bool:
            return bool(client) and self._latest.get(client, ticket) != ticket

        try:
            with self.cancel.when(outdated):
                self.cancel.check(0)
                self._running = (client, time.monotonic())
                return work()
        finally:
            self._running = ("", 0.0)

    def prefetch(self, works: Iterable[Callable[[], object]]) -> None:
        """Do these, one after the other, until a request or other prefetching comes."""
        if self._closed:
            return
        self._stop.set()
        self._stop = threading.Event()
        self._worker.submit(self._prefetch, works, self._stop)

    def _prefetch(self, works: Iterable[Callable[[], object]], stop: threading.Event) -> None:
        if stop.wait(QUIET):
            return
        remaining = iter(works)
        with self.cancel.when(stop.is_set):
            while True:
                try:
                    self.cancel.check(0)
                    next(remaining)()
                except (CancelledError, StopIteration):
                    return
                except PartswapError:  # shown when somebody requests it
                    continue

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        self._stop.set()
        self._worker.shutdown(wait=False, cancel_futures=True)
