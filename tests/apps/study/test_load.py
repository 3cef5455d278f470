"""Many participants at once, on both databases: no error. Times are measured in benchmarks/study.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from partswap.apps.study.server import open_site
from partswap.apps.study.simulate import RandomLearner, SimulationSettings, run_simulated_participants
from study_files import free_port, make_study, start_server


@pytest.mark.parametrize("people", [25, pytest.param(200, marks=pytest.mark.soak)])
def test_many_at_once_without_an_error(tmp_path, new_database: Callable[[], str], people: int):
    study = make_study(tmp_path, participants=people, pairs=2, blocks=1, learning=2, questions=2)
    url, port = new_database(), free_port()
    site = open_site(tmp_path, url)
    tokens = [site.database.add(simulated=True) for _ in range(people)]
    server = start_server(tmp_path, url, port)
    try:
        learners = [RandomLearner() for _ in tokens]
        traffic = asyncio.run(
            run_simulated_participants(f"http://127.0.0.1:{port}", tokens, learners, SimulationSettings(think=0.5))
        )
    finally:
        server.terminate()
        server.wait(20)
    assert traffic.errors == []
    assert traffic.finished == people
    steps = len(site.steps_of(0))
    assert len(site.database.all_answers()) == people * steps == len(traffic.answers)
    assert all(row["code"] for row in site.database.everyone())
    assert len({block.lesson for slot in study.slots for block in slot}) == len(study.lessons)
    site.database.close()
