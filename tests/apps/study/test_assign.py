"""Who takes which lessons, what they see in which order, and how much a study can find."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partswap.apps.study.assign import assign
from partswap.apps.study.folder import Lesson
from partswap.apps.study.power import ACCURACY, SPREAD, power_of
from partswap.apps.study.steps import steps_of
from partswap.errors import SettingError
from study_files import make_study


def lessons_of(pairs: int, methods: int, setups: int) -> list[Lesson]:
    return [
        Lesson(pair=pair, method=f"m{m}", setup=f"s{s}", learning=())
        for pair in range(pairs)
        for s in range(setups)
        for m in range(methods)
    ]


@given(
    pairs=st.integers(1, 12), methods=st.integers(1, 4), setups=st.integers(1, 2), people=st.integers(1, 40),
    share=st.floats(0, 1), seed=st.integers(0, 5),
)  # fmt: skip
def test_assignments_are_balanced_and_nobody_sees_a_pair_twice(pairs, methods, setups, people, share, seed):
    lessons = lessons_of(pairs, methods, setups)
    blocks = max(1, round(share * pairs))
    slots = assign(lessons, people, blocks, random.Random(seed))
    assert len(slots) == people
    given_out: Counter[int] = Counter()
    for slot in slots:
        seen = [lessons[block.lesson].pair for block in slot]
        assert len(slot) == blocks == len(set(seen))
        given_out.update(block.lesson for block in slot)
    # Uses of lessons differ by little: one, or what whole slots without repetition force.
    uses = [given_out[k] for k in range(len(lessons))]
    assert max(uses) - min(uses) <= 2
    swapped = Counter(block.lesson for slot in slots for block in slot if block.swapped)
    assert all(abs(2 * swapped[k] - given_out[k]) <= 1 for k in range(len(lessons)))
    assert slots == assign(lessons, people, blocks, random.Random(seed))


def test_a_participant_takes_all_conditions_about_equally_often():
    slots = assign(lessons := lessons_of(40, 3, 2), 50, 12, random.Random(0))
    for slot in slots:
        had = Counter((lessons[b.lesson].method, lessons[b.lesson].setup) for b in slot)
        assert len(had) == 6
        assert max(had.values()) <= 4


def test_more_pairs_than_there_are_cannot_be_asked_for():
    with pytest.raises(SettingError, match=r"cannot see 5 pairs of classes: there are 3"):
        assign(lessons_of(3, 2, 1), 4, 5, random.Random(0))


def test_steps_show_every_picture_and_know_what_is_right(tmp_path):
    study = make_study(tmp_path, pairs=3, blocks=3, attention=2, learning=2, questions=4)
    for slot, blocks in enumerate(study.slots):
        steps = steps_of(study, slot)
        assert [step.number for step in steps] == list(range(len(steps)))
        phases = Counter(step.phase for step in steps)
        assert phases == {
            "consent": 1, "instructions": 1, "pair": 3, "before": 12, "learn": 6, "test": 12, "attention": 2
        }  # fmt: skip
        for number, block in enumerate(blocks):
            pair = study.pairs[study.lessons[block.lesson].pair]
            colours = {question.image: question.second for question in pair.questions}
            for phase in ("before", "test"):
                mine = [step for step in steps if (step.phase, step.block) == (phase, number)]
                assert {step.shown[0].image for step in mine} == set(colours)
                for step in mine:
                    is_b = colours[step.shown[0].image] != block.swapped
                    assert step.truth == ("B" if is_b else "A")
            for step in steps:
                if (step.phase, step.block) == ("learn", number):
                    assert [shown.label for shown in step.shown] == ["A", "B"]
                    learning = study.lessons[block.lesson].learning
                    first = "B" if block.swapped else "A"
                    of_first = next(shown.image for shown in step.shown if shown.label == first)
                    assert of_first in {pair.query.image for pair in learning}
        # An attention check never opens or closes a test.
        for step in steps:
            if step.phase == "attention":
                assert steps[step.number - 1].phase in ("test", "attention")
                assert steps[step.number + 1].phase in ("test", "attention")


def test_the_power_estimate_holds_in_a_simulation():
    found = power_of(25, 12, 10, 3, 155)
    rng = np.random.default_rng(0)
    each = round(found.blocks)

    def blocks(accuracy: float) -> np.ndarray:
        shares = rng.normal(accuracy, SPREAD, (4000, each)).clip(0, 1)
        return rng.binomial(10, shares) / 10

    ours, theirs = blocks(ACCURACY + found.difference / 2), blocks(ACCURACY - found.difference / 2)
    gap = ours.mean(1) - theirs.mean(1)
    error = np.sqrt(ours.var(1, ddof=1) / each + theirs.var(1, ddof=1) / each)
    assert np.mean(np.abs(gap) / error > 1.96) == pytest.approx(0.8, abs=0.06)
    assert "80 %" in found.sentence()


def test_shuffles_do_not_depend_on_other_random_numbers(tmp_path):
    study = make_study(tmp_path)
    first = steps_of(study, 0)
    random.seed(5)
    random.random()
    assert steps_of(study, 0) == first
