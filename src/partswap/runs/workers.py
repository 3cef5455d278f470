"""Explains shards in several processes of this machine; the caller writes the files."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import threading
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from partswap.errors import PartswapError
from partswap.results.counterfactual import Counterfactual
from partswap.runs.payload import Shard, WorkerPayload, WorkerState, one_thread

Found = tuple[Shard, list[Counterfactual]]
#: How often a shard is tried again when its process dies.
RETRIES = 1


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explain_here(payload: WorkerPayload, shards: Sequence[Shard], workers: int | None = None) -> Iterator[Found]:
    """Yield every shard with its counterfactuals, in any order; with one worker, in this process and in order.

    There is one worker per core by default, or one on a GPU. The result does not depend on how many there are.
    """
    # Several processes on one GPU slow each other down.
    count = min(workers or (cores() if payload.device == "cpu" else 1), len(shards))
    if count > 1:
        yield from _explain_in(count, payload, shards)
    elif count:
        with one_thread():
            session = WorkerState(payload)
            for shard in shards:
                yield shard, session.explain(shard)


class _Worker:
    """A process with the shard it works on."""

    def __init__(self) -> None:
        # Spawned, not forked: a copy of a process in which torch already has threads may hang.
        context = mp.get_context("spawn")
        self.pipe, worker_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(worker_end,), daemon=True)
        self.process.start()
        worker_end.close()  # or we would never see it closed
        self.shard: Shard | None = None
        self.ready = False

    def give(self, shard: Shard, payload: WorkerPayload) -> None:
        self.shard = shard
        with suppress(OSError):  # if it is gone, reading from it says so
            if not self.ready:
                # Not an argument of the process: those are handed over in a way that waits forever for one that died.
                self.pipe.send(payload)
                self.ready = True
            self.pipe.send(shard)

    def stop(self) -> None:
        self.process.kill()  # it writes no files, so there is nothing to finish
        self.process.join()
        self.pipe.close()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put Ctrl-C off while a process starts, and keep it from that process for good: the parent ends it.

    A terminal sends it to all of them, and one that is still importing would answer with a traceback.
    """
    resource_tracker.ensure_running()  # its start would let signals through again
    late: list[tuple[Any, ...]] = []
    is_main = threading.current_thread() is threading.main_thread()
    usual = signal.signal(signal.SIGINT, lambda *args: late.append(args)) if is_main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if is_main:
            signal.signal(signal.SIGINT, signal.SIG_DFL if usual is None else usual)
        if late and callable(usual):
            usual(*late[0])


def _explain_in(count: int, payload: WorkerPayload, shards: Sequence[Shard]) -> Iterator[Found]:
    """Yield every shard with its counterfactuals from so many worker processes."""
    waiting, lost = deque(shards), Counter[Shard]()
    workers: list[_Worker] = []
    try:
        for _ in range(count):  # one by one, so that those that started are stopped if another does not
            with _undisturbed():
                workers.append(_Worker())
        while waiting or any(worker.shard for worker in workers):
            for worker in workers:
                if worker.shard is None and waiting:
                    worker.give(waiting.popleft(), payload)
            busy = {worker.pipe: (worker, worker.shard) for worker in workers if worker.shard is not None}
            for pipe in wait(list(busy)):
                worker, shard = busy[pipe]  # type: ignore[index]
                try:
                    answer = worker.pipe.recv()
                except (EOFError, OSError):
                    worker.stop()
                    workers.remove(worker)
                    lost[shard] += 1
                    if lost[shard] > RETRIES:
                        code = worker.process.exitcode
                        raise PartswapError(
                            f"a worker process died {lost[shard]} times on the same shard ({shard}, exit code {code}).",
                            "If the machine ran out of memory, use fewer {workers} or a smaller memory_mb, and run "
                            "again: what is done is kept.",
                        ) from None
                    waiting.appendleft(shard)
                    with _undisturbed():
                        workers.append(_Worker())
                    continue
                worker.shard = None
                if isinstance(answer, BaseException):
                    raise answer
                yield shard, answer
    finally:
        for worker in workers:
            worker.stop()


def _serve(pipe: Connection) -> None:
    """Receive a payload, then explain its shards until the pipe is closed; this runs in the worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it could not be kept away
    session: WorkerState | None = None
    with one_thread(), suppress(EOFError, ConnectionError):  # the parent has closed the pipe, or died
        payload = pipe.recv()
        while True:
            shard = pipe.recv()
            try:
                session = session or WorkerState(payload)
                answer: list[Counterfactual] | Exception = session.explain(shard)
            except Exception as error:  # raised again in the parent
                answer = _sendable(error)
            try:
                pipe.send(answer)
            except OSError:  # the parent has died
                return


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # pickling an error of another library may fail in any way
        return RuntimeError(traceback.format_exc())
    if not isinstance(error, PartswapError):
        error.add_note(traceback.format_exc())
    return error
