"""Metrics on a case worked out by hand."""

import pytest

from partswap import Counterfactual, Edit, GridShape, Step
from partswap.data import CellFacts, Sample, cell_facts
from partswap.metrics import Evidence, score_all

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
    import numpy as np
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
