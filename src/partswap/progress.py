"""Progress, shown or not: long work takes a `Track`, and the command line passes one that draws bars."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

Advance = Callable[[int], None]
#: Seconds after which work that has no bar says that it is under way.
PATIENCE = 2.0


class Track(Protocol):
    """Opens a bar: ``with track("features", total=100, done=20) as advance: advance(5)``."""

    def __call__(self, title: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """Return a context whose value is called with how much was done since."""


def no_progress(title: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return nullcontext(lambda _steps: None)


@contextmanager
def step(track: Track, title: str) -> Iterator[None]:
    """Show work that cannot be counted."""
    with track(title, 1) as advance:
        yield
        advance(1)


@contextmanager
def bars(title: str, total: int, done: int = 0) -> Iterator[Advance]:
    """Show a bar with rate and time left; without a terminal, one line at the end.

    Of a single step, only that it is under way is shown, once it takes long.
    """
    from rich import progress as show
    from rich.console import Console

    if total == 1:
        with _waiting(title):
            yield lambda _steps: None
        return
    text, rate = show.TextColumn("{task.description:<26}"), show.TextColumn("{task.fields[rate]}")
    times = show.TimeElapsedColumn(), show.TimeRemainingColumn()
    columns = (text, show.BarColumn(), show.MofNCompleteColumn(), rate, *times)
    console = Console(stderr=True)
    with show.Progress(*columns, console=console, refresh_per_second=2, speed_estimate_period=3600) as progress:
        task = progress.add_task(title, total=total, completed=done, rate="")
        begun, made = time.monotonic(), 0

        def advance(steps: int) -> None:
            # Over all the time: many steps are reported at once where work is handed out in shards.
            nonlocal made
            made += steps
            rate = made / max(time.monotonic() - begun, 1e-9)
            progress.update(task, advance=steps, rate=f"{rate:.1f}/s")

        yield advance


@contextmanager
def _waiting(title: str) -> Iterator[None]:
    """Show that something is under way if it takes long: turning on a terminal, else as one line."""
    from rich.console import Console

    console = Console(stderr=True)
    status = console.status(title)

    def show() -> None:
        if console.is_terminal:
            status.start()
        else:
            console.print(f"{title} ...", markup=False, highlight=False)

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or it could begin to turn after this
        status.stop()
