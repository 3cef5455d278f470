"""A participant with a script, the public code and the default seed: what can be worked out of what a study shows?"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from partswap.apps.study.assign import assign
from partswap.apps.study.export import answers_table
from partswap.apps.study.folder import Block, Lesson, Study
from partswap.apps.study.secret import new_secret, random_from
from partswap.apps.study.server import StudyState, make_app, open_site
from partswap.apps.study.serving import served
from partswap.apps.study.simulate import read_page
from partswap.errors import SettingError
from study_files import METHODS, make_study

#: What the script may know of a study; pictures' names are what it sees.
PAIRS, BLOCKS, QUESTIONS, SLOTS = 3, 2, 10, 1001

Orders = Callable[..., random.Random]


def by_seed(*purpose: str | int) -> random.Random:
    """Return the random numbers that decided orders before there was a secret, with the default seed."""
    return random.Random("/".join(str(part) for part in (0, *purpose)))


class Script:
    """Finds the slot whose two orders fit best what it saw, and answers what is right in that slot."""

    def __init__(self, orders: Orders) -> None:
        lessons = [Lesson(pair=p, method=m, setup="random", learning=()) for p in range(PAIRS) for m in METHODS]
        self.blocks = assign(lessons, SLOTS, BLOCKS, orders("assignment"))
        self.orders = {  # numbers of the questions, by slot
            (block, phase): np.array([shuffled(orders(slot, block, phase)) for slot in range(SLOTS)])
            for block in range(BLOCKS)
            for phase in ("before", "test")
        }

    def matches(self, block: int, before: list[str], test: list[str]) -> np.ndarray:
        """Return, for every slot, how many test pictures come where they would."""
        places = [before.index(name) for name in test]
        return (self.orders[block, "before"][:, places] == self.orders[block, "test"][:, : len(test)]).sum(1)

    def choice(self, block: int, before: list[str], test: list[str]) -> str:
        """Return what to answer for the last picture of the test so far."""
        slot = int(self.matches(block, before, test).argmax())
        second = self.orders[block, "before"][slot, before.index(test[-1])] >= QUESTIONS // 2
        return "B" if second != self.blocks[slot][block].swapped else "A"


def shuffled(rng: random.Random) -> list[int]:
    order = list(range(QUESTIONS))
    rng.shuffle(order)
    return order


def taken_by_script(base: str, token: str, script: Script) -> tuple[list[list[str]], list[list[str]]]:
    """Take a study over HTTP with a script; returns the orders of its pictures, before and in the test."""
    before: list[list[str]] = [[] for _ in range(BLOCKS)]
    test: list[list[str]] = [[] for _ in range(BLOCKS)]
    block = -1
    with httpx.Client(base_url=base) as client:
        page = read_page(client.get(f"/s/{token}").text)
        while page.phase != "thanks":
            choice = page.choices[0]
            block += page.phase == "pair"
            if page.phase in ("before", "test"):
                (before if page.phase == "before" else test)[block].append(page.images[0]["src"])
            if page.phase == "test":
                choice = script.choice(block, before[block], test[block])
            sent = {"step": str(page.step), "choice": choice}
            response = client.post(f"/s/{token}", data=sent, headers={"accept": "application/json"})
            page = read_page(response.raise_for_status().json()["html"])
    return before, test


def new_study(folder: Path, **more) -> Study:
    return make_study(
        folder, pairs=PAIRS, participants=8, blocks=BLOCKS, learning=1, questions=QUESTIONS, attention=1, seed=0, **more
    )


def make_old(folder: Path) -> None:
    """Turn a study into one of version 1, planned with the default seed."""
    study = json.loads((folder / "study.json").read_text())
    del study["secret"]
    lessons = [Lesson(**lesson) for lesson in study["lessons"]]
    slots = assign(lessons, len(study["slots"]), BLOCKS, by_seed("assignment"))
    study |= {"version": 1, "slots": [[block.model_dump() for block in slot] for slot in slots]}
    (folder / "study.json").write_text(json.dumps(study))


def begun_old_study(folder: Path) -> StudyState:
    """Return a study of version 1 that someone has begun."""
    new_study(folder)
    database = open_site(folder).database
    database.answer(database.add(), 0, "agree", None)
    make_old(folder)
    return open_site(folder, answering=1000.0)


def share_right(site: StudyState) -> float:
    """Return how many test answers were right."""
    right = [row["right"] for row in answers_table(site.study, site.database).to_pylist() if row["phase"] == "test"]
    return sum(right) / len(right)


def test_the_script_knows_the_answers_of_an_old_study(tmp_path):
    """What must fail below works where orders follow from the seed: it is no attack on nothing."""
    site, script = begun_old_study(tmp_path), Script(by_seed)
    tokens = [site.database.add() for _ in range(3)]
    with served(site) as base:
        for token in tokens:
            before, test = taken_by_script(base, token, script)
            slot = site.database.find(token).slot
            for block in range(BLOCKS):
                fits = script.matches(block, before[block], test[block]) == QUESTIONS
                assert np.flatnonzero(fits).tolist() == [slot]
    assert share_right(site) > 0.75  # right from about the fourth picture on


def test_the_script_does_no_better_than_chance(tmp_path):
    new_study(tmp_path)
    site, by_the_seed = open_site(tmp_path, answering=1000.0), Script(by_seed)
    # It may also try the code that is public now, with a secret of its own.
    others = [Script(partial(random_from, secret)) for secret in ("0" * 64, "a7" * 32)]
    right: list[bool] = []
    with served(site) as base:
        for token in [site.database.add() for _ in range(8)]:
            before, test = taken_by_script(base, token, by_the_seed)
            truths = [step.truth for step in site.steps_of(site.database.find(token).slot) if step.phase == "test"]
            for block in range(BLOCKS):
                assert sorted(before[block]) == sorted(test[block])
                for script in (by_the_seed, *others):
                    assert script.matches(block, before[block], test[block]).max() < QUESTIONS
                for k, truth in enumerate(truths[block * QUESTIONS : (block + 1) * QUESTIONS]):
                    right += [script.choice(block, before[block], test[block][: k + 1]) == truth for script in others]
    assert 0.34 < share_right(site) < 0.66  # of 160 answers: within four standard deviations
    assert 0.38 < sum(right) / len(right) < 0.62  # of 320


def agreement(one: tuple[tuple[Block, ...], ...], other: tuple[tuple[Block, ...], ...]) -> tuple[float, float]:
    """Return how often two assignments give the same lesson, and call the first class the same."""
    both = [pair for slots in zip(one, other, strict=True) for pair in zip(*slots, strict=True)]
    lessons = sum(a.lesson == b.lesson for a, b in both) / len(both)
    return lessons, sum(a.swapped == b.swapped for a, b in both) / len(both)


def test_lessons_and_names_do_not_follow_from_the_size_of_a_study():
    lessons = [Lesson(pair=p, method=m, setup="random", learning=()) for p in range(20) for m in METHODS]
    predicted = assign(lessons, 25, 6, by_seed("assignment"))
    assert agreement(predicted, assign(lessons, 25, 6, by_seed("assignment"))) == (1.0, 1.0)
    plans = [assign(lessons, 25, 6, random_from(new_secret(), "assignment")) for _ in range(60)]
    same_lesson, same_names = zip(*(agreement(predicted, plan) for plan in plans), strict=True)
    assert sum(same_lesson) / len(plans) == pytest.approx(1 / len(lessons), abs=0.01)
    assert sum(same_names) / len(plans) == pytest.approx(0.5, abs=0.03)  # of 9000 blocks
    assert all(agreement(one, other)[0] < 0.2 for one, other in pairwise(plans))


def test_purposes_do_not_share_random_numbers():
    purposes = [("order",), (1, 23, "test"), (12, 3, "test"), (1, 2, "3test"), (1, 23, "before"), ("1", "23", "test")]
    drawn = {random_from("5e" * 32, *purpose).random() for purpose in purposes}
    assert len(drawn) == len(purposes)


def test_an_old_study_that_nobody_has_begun_is_planned_again(tmp_path):
    new_study(tmp_path)
    make_old(tmp_path)
    with pytest.raises(SettingError, match=r"could work the answers out.*Plan it again"):
        open_site(tmp_path)


def test_an_old_study_that_people_have_begun_goes_on_as_it_was(tmp_path):
    site = begun_old_study(tmp_path)
    study = site.study
    site.open_places = 2
    browser, other = (TestClient(make_app(site), follow_redirects=False) for _ in range(2))
    place = browser.post("/join", data={"PROLIFIC_PID": "a"}).headers["location"]
    assert browser.post("/join", data={"PROLIFIC_PID": "a"}).headers["location"] == place
    assert other.post("/join", data={"PROLIFIC_PID": "a"}).status_code == 409  # its token was random, and is not known
    for slot in range(3):
        for block in range(BLOCKS):
            questions = list(study.pairs[study.lessons[study.slots[slot][block].lesson].pair].questions)
            by_seed(slot, block, "test").shuffle(questions)
            steps = [step for step in site.steps_of(slot) if (step.phase, step.block) == ("test", block)]
            assert [step.shown[0].image for step in steps] == [question.image for question in questions]
