"""Stopping long work from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from partswap.errors import PartswapError


class CancelledError(PartswapError):
    """Work was stopped, since nobody waits for its result any more."""


class CancelToken:
    """What long work is given so that it can be stopped: it calls `check` between batches.

    Parameters
    ----------
    cancelled : callable, optional
        Returns whether the work is to stop. Other conditions can be added for a while (`when`, `within`).
    """

    def __init__(self, cancelled: Callable[[], bool] | None = None) -> None:
        self._conditions = [] if cancelled is None else [cancelled]
        #: How far the work has come: of a search, the number of edits in the sets that it looks at.
        self.progress = 0

    @property
    def cancelled(self) -> bool:
        """Whether the work is to stop."""
        return any(condition() for condition in self._conditions)

    def check(self, progress: int | None = None) -> None:
        """Note how far the work has come; raise `CancelledError` if it is to stop."""
        self.progress = self.progress if progress is None else progress
        if self.cancelled:
            raise CancelledError("nobody waits for this result any more.", "Ask for it again.")

    @contextmanager
    def when(self, condition: Callable[[], bool]) -> Iterator[None]:
        """Stop work in this block also when a condition holds."""
        self._conditions.append(condition)
        try:
            yield
        finally:
            self._conditions.remove(condition)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Stop work in this block also when its time is over."""
        end = time.monotonic() + seconds
        with self.when(lambda: time.monotonic() > end):
            yield
