"""Guessing the administrator's password is slow, whoever tries how, and whoever knows it gets in."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from partswap.apps.study.admin import set_password
from partswap.apps.study.limits import PasswordDelays, address_of
from partswap.apps.study.server import open_site
from partswap.apps.study.serving import served
from study_files import make_study

#: How sessions of a guesser are called: one for all, none (no cookie), a new one every time.
GUESSERS = {
    "one session": lambda: itertools.repeat("guesser"),
    "no session": lambda: itertools.repeat(""),
    "new sessions": lambda: (f"new {k}" for k in itertools.count()),
}


class Hours:
    """A clock that a test moves on, and those who wait for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tries = PasswordDelays(clock=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            await asyncio.sleep(0)

    async def pass_by(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            for _ in range(3):
                await asyncio.sleep(0)
            self.now += 0.05

    def during(self, seconds: float, *people: Callable[[], Awaitable[None]]) -> None:
        """Let people try for so long."""

        async def run() -> None:
            tasks = [asyncio.ensure_future(person()) for person in people]
            await self.pass_by(seconds)
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert result is None or isinstance(result, asyncio.CancelledError), result

        asyncio.run(run())

    def guesser(self, sessions: Iterator[str], looked_at: list[float]) -> Callable[[], Awaitable[None]]:
        """Return someone who tries again as soon as there is an answer."""

        async def guess() -> None:
            while True:
                if await self.tries.turn("address", next(sessions)):
                    looked_at.append(self.now)
                await self.sleep(0.05)

        return guess


@pytest.mark.parametrize("at_once", [1, 30])
@pytest.mark.parametrize("kind", GUESSERS)
def test_guesses_are_slow_however_many_come_at_once(kind, at_once):
    hours, looked_at = Hours(), []
    sessions = GUESSERS[kind]()
    hours.during(180, *(hours.guesser(sessions, looked_at) for _ in range(at_once)))
    # Three at once, then after 0.5, 1, 2, 4 and 8 seconds, then every ten.
    assert 18 <= len(looked_at) <= 25
    assert looked_at[2] < 1
    assert all(later - earlier > 9.9 for earlier, later in itertools.pairwise(looked_at[10:]))


@pytest.mark.parametrize(
    ("kind", "at_once", "turns"), [("one session", 30, 1), ("no session", 30, 1), ("new sessions", 4, 5)]
)
def test_someone_new_at_the_same_address_is_let_in(kind, at_once, turns):
    hours, looked_at = Hours(), []
    sessions = GUESSERS[kind]()
    waited: list[float] = []

    async def someone() -> None:
        await hours.sleep(100)
        arrived = hours.now
        assert await hours.tries.turn("address", "someone")
        hours.tries.right("address", "someone")
        waited.append(hours.now - arrived)

    hours.during(250, someone, *(hours.guesser(sessions, looked_at) for _ in range(at_once)))
    assert len(waited) == 1
    assert waited[0] <= turns * (PasswordDelays.LONGEST + 0.2)


def test_a_session_that_knew_the_password_never_waits_for_others():
    hours, looked_at = Hours(), []
    waited: list[float] = []

    async def someone() -> None:
        for _ in range(8):
            arrived = hours.now
            assert await hours.tries.turn("address", "someone")
            hours.tries.right("address", "someone")
            waited.append(hours.now - arrived)
            await hours.sleep(20)

    sessions = GUESSERS["new sessions"]()
    hours.during(170, someone, *(hours.guesser(sessions, looked_at) for _ in range(30)))
    assert len(waited) == 8
    assert waited[1:] == [0.0] * 7
    # What was right is no reason to let others guess.
    assert len(looked_at) <= 25


def test_right_passwords_wait_for_nothing_and_time_heals():
    hours, waited = Hours(), []

    async def someone() -> None:
        for k in range(20):
            arrived = hours.now
            assert await hours.tries.turn("address", f"session {k}")
            hours.tries.right("address", f"session {k}")
            waited.append(hours.now - arrived)
        for k in range(6):
            await hours.tries.turn("address", f"wrong {k}")
        hours.now += PasswordDelays.FORGOTTEN + PasswordDelays.LONGEST
        arrived = hours.now
        assert await hours.tries.turn("address", "later")
        waited.append(hours.now - arrived)

    hours.during(60, someone)
    assert waited == [0.0] * 21


def test_an_address_is_a_network_where_everyone_has_many():
    def of(host: str) -> str:
        return address_of(Request({"type": "http", "client": (host, 1)}))

    assert of("2001:db8:1:2::1") == of("2001:db8:1:2:ffff::9") != of("2001:db8:1:3::1")
    assert of("192.0.2.1") != of("192.0.2.2")
    assert of("::ffff:192.0.2.1") != of("::ffff:192.0.2.2")
    assert of("fe80::1%eth0")
    assert of("testclient") == "testclient"


def test_over_http_a_burst_of_guesses_is_refused_and_who_knows_gets_in(tmp_path: Path, monkeypatch):
    make_study(tmp_path)
    monkeypatch.setattr(PasswordDelays, "SHORTEST", 4.0)
    site = open_site(tmp_path)
    set_password(site.database, "correct horse")
    with served(site) as base, ThreadPoolExecutor(30) as pool:
        guesses = [
            pool.submit(httpx.post, f"{base}/admin/login", data={"password": f"guess {k}"}, timeout=60)
            for k in range(30)
        ]
        with httpx.Client(base_url=base, timeout=60) as someone:
            assert "Password" in someone.get("/admin").text
            login = someone.post("/admin/login", data={"password": "correct horse"})
            assert login.status_code == 303
            assert someone.get("/admin/progress").status_code == 200
        statuses = [guess.result().status_code for guess in guesses]
    assert set(statuses) == {401, 429}
    assert statuses.count(401) < 10  # three at once, and one for every four seconds
