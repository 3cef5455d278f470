"""Progress, shown or not: long work takes a `Track`, and the command line passes one that draws bars."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

Advance = Callable[[int], None]


class Track(Protocol):
    """Opens a bar: ``with track("features", total=100, done=20) as advance: advance(5)``."""

    def __call__(self, title: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """Return a context whose value is called with how much was done since."""


def no_progress(title: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return nullcontext(lambda _steps: None)


@contextmanager
def bars(title: str, total: int, done: int = 0) -> Iterator[Advance]:
    """Show a bar with rate and time left; without a terminal, one line at the end."""
    from rich import progress as show
    from rich.console import Console

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
