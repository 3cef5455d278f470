"""What every request to a study passes: size and origin (see `apps.web`), and pace."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from fastapi import Request

from partswap.apps import security as web
from partswap.apps.security import HEADERS as HEADERS

#: Bytes that a request may send; an answer has less than a hundred.
LARGEST = 8192


class RateLimiter:
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


@dataclass
class _Line:
    """Who waits to have a password looked at: `free` is when the next one may be, `wrong` counts per session."""

    free: float
    count: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    waiting: list[tuple[str, object]] = field(default_factory=list)


class PasswordDelays:
    """Slows down who guesses a password, and lets in who knows it.

    Passwords from one address are looked at one by one, and after a few wrong ones the next has to wait, ever longer up
    to `LONGEST`. Nothing is locked: next is always the session that was wrong least often, so that someone new waits
    for one turn, whatever a guesser sends. A session that knew the password waits in a line of its own from then on.
    """

    #: Tries before anyone waits; the first wait in seconds, which doubles, and the longest; sessions that may wait.
    FREE, SHORTEST, LONGEST, WAITING = 3, 0.5, 10.0, 16
    #: Seconds after which an address begins anew.
    FORGOTTEN = 900.0

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.clock, self.sleep = clock, sleep
        self._lines: dict[str, _Line] = {}
        self._knew: set[str] = set()

    async def turn(self, address: str, session: str) -> bool:
        """Wait until a try may be looked at; False: it may not, too many wait or the session tried again meanwhile."""
        line, own = self._line(address, session), (session, object())
        line.waiting = [one for one in line.waiting if one[0] != session]
        line.waiting.append(own)
        if len(line.waiting) > self.WAITING:
            del line.waiting[max(range(len(line.waiting)), key=lambda k: (line.wrong[line.waiting[k][0]], k))]
        while own in line.waiting:
            if self.clock() >= line.free and own is min(line.waiting, key=lambda one: line.wrong[one[0]]):
                line.waiting.remove(own)
                # Wrong until it is found right: those that come at the same time have to wait for it.
                line.wrong[session] += 1
                line.count += 1
                delay = self.SHORTEST * 2.0 ** min(line.count - self.FREE, 30) if line.count >= self.FREE else 0.0
                line.free = self.clock() + min(delay, self.LONGEST)
                return True
            await self.sleep(0.05)
        return False

    def right(self, address: str, session: str) -> None:
        """Take back that the last try of a session counted as wrong."""
        line = self._line(address, session)
        line.wrong[session] -= 1
        line.count -= 1
        if session:
            self._knew.add(session)

    def _line(self, address: str, session: str) -> _Line:
        now, who = self.clock(), f"session {session}" if session in self._knew else address
        if len(self._lines) > 10_000:
            self._lines = {k: v for k, v in self._lines.items() if v.waiting or now < v.free + self.FORGOTTEN}
        line = self._lines.get(who)
        if line is None or (not line.waiting and now >= line.free + self.FORGOTTEN):
            line = self._lines[who] = _Line(now)
        return line


def address_of(request: Request) -> str:
    """Return where a request comes from; of IPv6 the network, in which everyone has as many addresses as they like."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return host
    return str(ipaddress.ip_network((address.packed, 64), strict=False))


class RequestLimits(web.SecurityMiddleware):
    """The guard of a study: nobody sends much."""

    def __init__(self, app: web.App, names: Collection[str] | None = None) -> None:
        super().__init__(app, LARGEST, "this study", names)
