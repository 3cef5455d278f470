"""Whatever happens to the server, no acknowledged answer is lost, and none is there twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from partswap.apps.study.database import DatabaseUnavailableError
from partswap.apps.study.server import make_app, open_site
from partswap.apps.study.simulate import read_page
from study_files import Postgres, free_port, make_study, start_server

PEOPLE = 50


async def until_killed(base: str, tokens: list[str], acknowledged: dict[tuple[int, int], str], stop: asyncio.Event):
    """Let everyone answer at once until the server is gone; note what it acknowledged."""
    limits = httpx.Limits(max_connections=None)

    async def one(client: httpx.AsyncClient, number: int) -> None:
        rng = random.Random(number)
        try:
            page = read_page((await client.get(f"/s/{tokens[number]}")).text)
            while page.phase != "thanks" and not stop.is_set():
                choice = rng.choice(page.choices)
                sent = {"step": str(page.step), "choice": choice}
                response = await client.post(f"/s/{tokens[number]}", data=sent, headers={"accept": "application/json"})
                if response.status_code == 200:
                    acknowledged.setdefault((number, page.step), choice)
                    page = read_page(response.json()["html"])
                await asyncio.sleep(rng.uniform(0.05, 0.15))
        except httpx.TransportError:
            return  # killed

    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=20) as client:
        await asyncio.gather(*(one(client, number) for number in range(len(tokens))))


async def killed(server, port: int, tokens: list[str], acknowledged: dict[tuple[int, int], str], *, after: int) -> None:
    """Kill the server in the middle of everyone's answers, when it has acknowledged so many more."""
    stop, enough = asyncio.Event(), len(acknowledged) + after
    crowd = asyncio.create_task(until_killed(f"http://127.0.0.1:{port}", tokens, acknowledged, stop))
    for _ in range(6000):
        if len(acknowledged) >= enough:
            break
        await asyncio.sleep(0.01)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    stop.set()
    await crowd


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_killed_in_the_middle_every_acknowledged_answer_is_there_once(
    tmp_path, new_database: Callable[[], str], kills: int
):
    make_study(tmp_path, participants=PEOPLE, pairs=6, blocks=6, learning=4, questions=10)
    for kill in range(kills):
        url = new_database()
        if url.startswith("sqlite"):
            url = url.replace("answers.db", f"answers{kill}.db")
        site = open_site(tmp_path, url)
        tokens = [site.database.add() for _ in range(PEOPLE)]
        acknowledged: dict[tuple[int, int], str] = {}
        port = free_port()
        for _ in range(2):  # killed, and killed again after the restart
            server = start_server(tmp_path, url, port)
            before = len(acknowledged)
            asyncio.run(killed(server, port, tokens, acknowledged, after=40 + 13 * (kill % 10)))
            assert len(acknowledged) >= before + 40
            stored = site.database.all_answers()
            slots = {site.database.find(token).id: number for number, token in enumerate(tokens)}
            found = {(slots[row["participant"]], row["step"]): row["choice"] for row in stored}
            assert len(found) == len(stored)
            assert {key: found.get(key) for key in acknowledged} == acknowledged
            # No gap: what is stored is a beginning of everyone's steps.
            assert all((number, step - 1) in found for number, step in found if step)
            # At most one answer of each was stored and not acknowledged any more.
            extra = Counter(number for number, step in found if (number, step) not in acknowledged)
            assert all(count == 1 for count in extra.values())
            # Those are acknowledged the moment they are sent again.
            acknowledged.update({key: found[key] for key in found})
        site.database.close()


def test_when_the_disk_is_full_people_are_told_to_wait_and_nothing_is_half_written(tmp_path):
    make_study(tmp_path, participants=20, pairs=6, blocks=6, learning=6, questions=10)
    site = open_site(tmp_path)
    client = TestClient(make_app(site), raise_server_exceptions=False)
    tokens = [site.database.add() for _ in range(20)]
    with site.database.engine.connect() as connection:
        pages = connection.execute(sa.text("PRAGMA page_count")).scalar()
    site.database.engine.dispose()

    def full(connection, _record) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    # SQLite itself says that the disk is full: it may not have another page.
    sa.event.listen(site.database.engine, "connect", full)
    everything = [(token, step) for token in tokens for step in site.steps_of(site.database.find(token).slot)]
    stored = []

    def fill() -> None:
        for token, step in everything:
            site.database.answer(token, step.number, step.choices[0], 700.0)
            stored.append(step)

    with pytest.raises(DatabaseUnavailableError, match="full"):
        fill()
    token, step = everything[len(stored)]
    answered, sent = step.number, {"step": step.number, "choice": step.choices[0]}
    response = client.post(f"/s/{token}", data=sent, headers={"accept": "application/json"})
    assert response.status_code == 503
    assert "wait" in response.json()
    assert response.headers["retry-after"]
    assert "content-security-policy" in response.headers
    assert site.database.find(token).done == answered
    assert "Please wait" in client.post(f"/s/{token}", data=sent).text
    # Room again: the same answer is taken.
    sa.event.remove(site.database.engine, "connect", full)
    site.database.engine.dispose()
    assert client.post(f"/s/{token}", data=sent).status_code == 200
    assert site.database.find(token).done == answered + 1


def test_while_postgresql_is_away_people_are_told_to_wait(tmp_path, postgres: Postgres):
    make_study(tmp_path)
    site = open_site(tmp_path, postgres.new())
    client, token = TestClient(make_app(site), raise_server_exceptions=False), site.database.add()
    sent = {"data": {"step": 0, "choice": "agree"}, "headers": {"accept": "application/json"}}
    postgres.stop()
    try:
        response = client.post(f"/s/{token}", **sent)
        assert response.status_code == 503
        assert "wait" in response.json()
    finally:
        postgres.start()
    assert client.post(f"/s/{token}", **sent).json()["step"] == 1
