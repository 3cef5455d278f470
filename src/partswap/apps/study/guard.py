"""What every request to a study passes: size and origin (see `apps.web`), and pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from partswap.apps import web
from partswap.apps.web import HEADERS as HEADERS

#: Bytes that a request may send; an answer has less than a hundred.
LARGEST = 8192


class Pace:
    """Lets so many things per second through for everyone, after a first burst."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}

    def passes(self, who: str) -> bool:
        """Count one more thing of someone; tell whether it is still within the pace."""
        now = self.clock()
        if len(self._left) > 10_000:  # whoever has been quiet for long begins anew
            self._left = {k: v for k, v in self._left.items() if (now - v[1]) * self.rate < self.burst}
        left, last = self._left.get(who, (float(self.burst), now))
        left = min(float(self.burst), left + (now - last) * self.rate)
        self._left[who] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class Guard(web.Guard):
    """The guard of a study: nobody sends much."""

    def __init__(self, app: web.App, names: Collection[str] | None = None) -> None:
        super().__init__(app, LARGEST, "this study", names)
