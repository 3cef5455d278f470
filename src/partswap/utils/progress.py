"""Progress, shown or not: long work takes a `Track`, and the command line passes one that draws bars."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol, TypeVar, overload

T = TypeVar("T")
Advance = Callable[[int], None]
#: Seconds after which work that is under way is shown.
PATIENCE = 2.0
#: Whether work is tracked already, around this.
_showing: ContextVar[bool] = ContextVar("showing", default=False)


class Track(Protocol):
    """Opens a bar: ``with track("features", total=100, done=20) as advance: advance(5)``."""

    def __call__(self, title: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """Return a context whose value is called with how much was done since."""


def no_progress(title: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return nullcontext(lambda _steps: None)


@overload
def tracked(items: Collection[T], title: str, track: Track) -> Iterator[T]: ...
@overload
def tracked(
    items: Iterable[T], title: str, track: Track, *, total: int, done: int = ..., size: Callable[[T], int] = ...
) -> Iterator[T]: ...
def tracked(
    items: Iterable[T],
    title: str,
    track: Track,
    *,
    total: int | None = None,
    done: int = 0,
    size: Callable[[T], int] = lambda _item: 1,
) -> Iterator[T]:
    """Yield items and show how far along they are; each counts as `size` says, after the loop's body is through.

    The bar ends with the loop: also when it is left by ``break`` or an error.

    Examples
    --------
    >>> [square for square in tracked([1, 4, 9], "squares", no_progress)]
    [1, 4, 9]
    """
    with track(title, len(items) if total is None else total, done) as advance:  # type: ignore[arg-type]
        for item in items:
            yield item
            advance(size(item))


@contextmanager
def step(track: Track, title: str) -> Iterator[None]:
    """Show work that cannot be counted."""
    with track(title, 1) as advance:
        yield
        advance(1)


@contextmanager
def bars(title: str, total: int, done: int = 0) -> Iterator[Advance]:
    """Show work that takes longer than `PATIENCE`: a bar with rate and time left; without a terminal, one line.

    Of a single step, only that it is under way is shown. Work within work that is shown already is not shown.
    """
    if _showing.get():
        yield lambda _steps: None
        return
    token = _showing.set(True)
    try:
        with _waiting(title) if total == 1 else _bar(title, total, done) as advance:
            yield advance
    finally:
        _showing.reset(token)


@contextmanager
def _bar(title: str, total: int, done: int) -> Iterator[Advance]:
    from rich import progress as show
    from rich.console import Console

    text, rate = show.TextColumn("{task.description:<26}"), show.TextColumn("{task.fields[rate]}")
    times = show.TimeElapsedColumn(), show.TimeRemainingColumn()
    columns = (text, show.BarColumn(), show.MofNCompleteColumn(), rate, *times)
    progress = show.Progress(*columns, console=Console(stderr=True), refresh_per_second=2, speed_estimate_period=3600)
    task = progress.add_task(title, total=total, completed=done, rate="")
    begun, steps_done = time.monotonic(), 0

    def advance(steps: int) -> None:
        # Over all the time: many steps are reported at once where work is handed out in shards.
        nonlocal steps_done
        steps_done += steps
        rate = steps_done / max(time.monotonic() - begun, 1e-9)
        progress.update(task, advance=steps, rate=f"{rate:.1f}/s")

    with _delayed(progress.start, progress.stop):
        yield advance


@contextmanager
def _waiting(title: str) -> Iterator[Advance]:
    """Show that something is under way if it takes long: turning on a terminal, else as one line."""
    from rich.console import Console

    console = Console(stderr=True)
    status = console.status(title)

    def start() -> None:
        if console.is_terminal:
            status.start()
        else:
            console.print(f"{title} ...", markup=False, highlight=False)

    with _delayed(start, status.stop):
        yield lambda _steps: None


@contextmanager
def _delayed(start: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """Call `start` if the context lasts longer than `PATIENCE`, and then `stop` at its end."""
    started = threading.Event()

    def begin() -> None:
        started.set()
        start()

    timer = threading.Timer(PATIENCE, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or it could start after this
        if started.is_set():
            stop()
