"""Metrics on a case worked out by hand."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partswap import METRICS, Counterfactual, Edit, GridShape, Step
from partswap.data import CellFacts, Sample, cell_facts
from partswap.errors import SettingError
from partswap.metrics import Evidence, score_all
from partswap.metrics.base import all_known
from partswap.utils.estimates import interval, resampled

GRID = GridShape(1, 3)


def facts(keypoints, shows, inside):
    as_sets = tuple(frozenset(k) for k in keypoints)
    return CellFacts(as_sets, tuple(frozenset(s) for s in shows), tuple(inside))


QUERY = facts([{"head"}, {"tail"}, ()], [{"head"}, {"tail", "belly"}, ()], [True, True, False])
FIRST = facts([{"head"}, (), ()], [{"head"}, {"belly"}, ()], [True, True, False])
SECOND = facts([(), {"tail", "leg"}, ()], [{"head"}, {"tail"}, ()], [False, True, False])


def counterfactual(*edits, flipped=True):
    steps = tuple(Step(0.5, 1, 0.0) for _ in edits)
    return Counterfactual(0, 1, GRID, 2, tuple(Edit(i, j, j // 3) for i, j in edits), Step(0.1, 0), steps, flipped)


def test_scores_are_those_worked_out_by_hand():
    evidence = Evidence(QUERY, [FIRST, SECOND], frozenset({"belly"}))
    explained = [
        (counterfactual((0, 0), (1, 1), (2, 2)), evidence),  # head/head, tail/nothing (belly shown), nothing
        (counterfactual((1, 4)), evidence),  # tail/tail of the second distractor
    ]
    scores = score_all(explained)
    assert scores["near_kp"].single == pytest.approx(1.0)
    assert scores["near_kp"].all == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert scores["same_kp"].all == pytest.approx(2 / 4)
    assert scores["true_part"].all == pytest.approx(1 / 4)  # only the cells that both show the belly
    assert scores["true_part"].single == 0
    assert scores["foreground"].all == pytest.approx((1 + 1 + 0 + 1) / 4)
    assert scores["edits"].all == pytest.approx(2.0)
    assert scores["flip_rate"].all == 1


def test_edits_count_only_what_flipped():
    evidence = Evidence(QUERY, [FIRST, SECOND])
    scores = score_all([(counterfactual((0, 0)), evidence), (counterfactual((0, 0), (1, 1), flipped=False), evidence)])
    assert scores["edits"].all == 1
    assert scores["flip_rate"].all == 0.5
    assert scores["true_part"].all is None  # nobody knows what truly differs


def test_annotations_land_in_the_right_cells():
    from PIL import Image

    mask = np.zeros((100, 200), bool)
    mask[:50, :100] = True
    tail = np.zeros_like(mask)
    tail[99, 199] = True  # a sliver: not shown
    points = {"head": [(10.0, 20.0)], "leg": [(150.0, 80.0), (10.0, 80.0)]}
    sample = Sample("a", Image.new("RGB", (200, 100)), 0, points, mask, {"head": mask, "tail": tail})
    found = cell_facts(sample, GridShape(2, 2))
    assert found.keypoints == (frozenset({"head"}), frozenset(), frozenset({"leg"}), frozenset({"leg"}))
    assert found.shows == (frozenset({"head"}), frozenset(), frozenset({"leg"}), frozenset({"leg"}))
    assert found.object == (True, False, False, False)


def test_parts_are_compared_as_in_scout():
    evidence = Evidence(QUERY, [FIRST, SECOND], frozenset({"tail", "belly"}))  # only the tail's keypoint can be seen
    both = counterfactual((0, 0), (1, 4))  # {head, tail} for {head, tail, leg}
    scores = score_all([(both, evidence)])
    assert scores["part_iou"].all == pytest.approx(2 / 3)
    assert scores["part_iou"].single == 1
    assert (scores["part_precision"].all, scores["part_recall"].all) == (0.5, 1)
    assert (scores["part_precision"].single, scores["part_recall"].single) == (0, 0)
    background = score_all([(counterfactual((2, 2)), evidence)])
    assert [background[name].all for name in ("part_iou", "part_precision", "part_recall")] == [0, 0, 0]


def test_nothing_is_said_of_parts_that_nobody_could_find():
    for differing in (None, frozenset({"crown"})):
        scores = score_all([(counterfactual((0, 0)), Evidence(QUERY, [FIRST, SECOND], differing))])
        assert scores["part_precision"].all is scores["part_recall"].all is None
        assert scores["part_iou"].all == 1
    assert score_all([(counterfactual(), Evidence(QUERY, [FIRST, SECOND]))])["part_iou"].all is None


def test_evaluations_are_the_mean_of_what_was_counted():
    evidence = Evidence(QUERY, [FIRST, SECOND])
    cfs = [replace(counterfactual((0, 0)), evaluations=n) for n in (10, 30, 0)]  # 0: an old file
    score = score_all([(cf, evidence) for cf in cfs])["evaluations"]
    assert (score.all, score.count) == (20, 2)


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = 0
    for seed in range(200):
        # Long explanations score worse, so the ratio of sums is not the mean of ratios.
        counts = rng.integers(1, 5, 120)
        sums = rng.binomial(counts, 0.8 / counts)
        low, high = interval(sums, counts, resamples=400, seed=seed)
        held += low <= 0.8 / 2.5 <= high
    assert 0.90 <= held / 200 <= 0.99


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 4)), min_size=2, max_size=30), st.integers(0, 99))
def test_resampled_ratios_are_those_of_a_plain_loop(rows, seed):
    sums, counts = (np.array(column) for column in zip(*rows, strict=True))
    drawn = np.random.default_rng(seed).integers(len(rows), size=(7, len(rows)), dtype=np.int32)
    plain = [sum(sums[k] for k in row) / sum(counts[k] for k in row) for row in drawn]
    assert resampled(sums, counts, resamples=7, seed=seed) == pytest.approx(np.array(plain))


def test_intervals_are_repeatable_optional_and_need_two_explanations():
    evidence = Evidence(QUERY, [FIRST, SECOND])
    explained = [(counterfactual((0, 0), (1, 1)), evidence), (counterfactual((2, 2)), evidence)] * 10
    score = score_all(explained, ["near_kp"], resamples=200)["near_kp"]
    assert score == score_all(explained, ["near_kp"], resamples=200)["near_kp"]
    assert score.all_interval[0] < score.all < score.all_interval[1]
    assert score.single_interval[0] < score.single < score.single_interval[1]
    assert score_all(explained, ["near_kp"])["near_kp"].all_interval is None
    assert score_all(explained[:1], ["near_kp"], resamples=10)["near_kp"].all_interval is None
    assert METRICS.get("near_kp")().show(0.5, (0.25, 0.75)) == "50.0 [25.0, 75.0]"
    with pytest.raises(SettingError, match="resamples is 0"):
        resampled([1, 2], resamples=0)


def test_an_explanation_is_left_out_if_one_image_of_it_is_not_annotated():
    bare = facts([()] * 3, [()] * 3, [False] * 3)
    bare = replace(bare, keypoints=None)
    both = counterfactual((0, 0), (1, 4))
    assert score_all([(both, Evidence(QUERY, [FIRST, bare]))], ["near_kp", "part_iou"])["near_kp"].all is None
    scores = score_all([(both, Evidence(QUERY, [FIRST, bare])), (both, Evidence(QUERY, [FIRST, SECOND]))])
    assert (scores["near_kp"].count, scores["foreground"].count, scores["part_iou"].count) == (2, 4, 1)
    assert (all_known([]), all_known([0.0, 1.0]), all_known([0.0, None])) == ([], [0.0, 1.0], None)


@pytest.mark.parametrize("name", METRICS.names())
def test_what_an_explanation_costs_is_better_when_it_is_lower(name):
    assert METRICS.get(name).lower_is_better == (name in {"edits", "evaluations", "seconds"})


def test_the_metric_that_contributing_shows_is_a_whole_one(monkeypatch):
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"A whole metric:\n\n```python\n(.*?)```", text, re.S)
    registered = {}
    monkeypatch.setattr(METRICS, "register", lambda name: lambda made: registered.setdefault(name, made))
    exec(code, {"__name__": "tails"})
    evidence = Evidence(QUERY, [FIRST, SECOND])
    score = registered["tails_only"]().compute([(counterfactual((0, 0), (1, 1)), evidence)])
    assert (score.single, score.all) == (0, 0.5)
