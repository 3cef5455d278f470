"""Sanity checks: random weights change explanations, small shifts hardly do."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from partswap.errors import PartswapError, SettingError
from partswap.grid import GridShape
from partswap.metrics.bootstrap import Estimate
from partswap.runs.config import RunConfig
from partswap.runs.workbench import open_workbench
from partswap.search.methods.hard import Hard
from partswap.studies.sanity import (
    chance_overlap,
    check_sanity,
    check_stability,
    compare_shifted,
    first_order,
    randomise,
    shift,
    weights_of,
)

BIRDS = RunConfig(data="aviary", model="aviary:vgg", options={"per_class": 1}, precision="float32")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    return open_workbench(BIRDS.with_(auxiliary="aviary", cache=cache, options={"per_class": 2}))


def test_random_weights_change_explanations(bench):
    before = [p.clone() for p in bench.classifier.model.parameters()]
    found = {r.which: r for r in check_sanity(bench, queries=4, distractors=1)}
    assert set(found) == {"head", "all"}
    for row in found.values():
        assert row.overlap.count + row.skipped == 4
        assert row.overlap.mean < 0.7
        assert 0 < row.chance.mean < 0.5
        assert abs(row.correlation.mean) < 0.9
        assert row.overlap.interval[0] <= row.overlap.mean <= row.overlap.interval[1]
    assert all(torch.equal(a, b) for a, b in zip(before, bench.classifier.model.parameters(), strict=True))
    assert check_sanity(bench, queries=4, distractors=1, which=["head"]) == [found["head"]]


def test_chance_is_what_drawing_at_random_gives():
    assert chance_overlap(1, 1, 49) == pytest.approx(1 / 49)
    rng = np.random.default_rng(0)
    drawn = [[set(rng.permutation(49)[:count].tolist()) for count in (3, 5)] for _ in range(4000)]
    seen = np.mean([len(a & b) / len(a | b) for a, b in drawn])
    assert chance_overlap(3, 5, 49) == pytest.approx(seen, rel=0.05)


def test_the_same_weights_give_the_same_explanations(bench, monkeypatch):
    monkeypatch.setattr("partswap.studies.sanity.randomise", lambda model, names, seed: model)
    (row,) = check_sanity(bench, queries=2, distractors=1, which=["head"])
    assert row.overlap.mean == 1
    assert row.correlation.mean == pytest.approx(1)


def test_only_the_weights_that_are_named_start_anew(bench):
    names = weights_of(bench, "head")
    assert names
    assert all(name.startswith("classifier.") for name in names)
    assert weights_of(bench, "all") == {name for name, _ in bench.classifier.model.named_parameters()}
    model = nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20), nn.Linear(20, 500), nn.PReLU(500))
    with torch.no_grad():
        model[1].running_mean.fill_(7)
        model[3].weight.copy_(torch.arange(500))
    twin = randomise(model, {"1.weight", "2.weight", "2.bias", "3.weight"})
    assert torch.equal(twin[0].weight, model[0].weight)
    assert not twin[1].running_mean.any()
    assert float(twin[2].weight.detach().std()) == pytest.approx((2 / 20) ** 0.5, rel=0.05)
    assert not twin[2].bias.any()
    assert not torch.equal(twin[3].weight, model[3].weight)
    assert torch.equal(twin[3].weight.sort().values, model[3].weight)
    assert torch.equal(randomise(model, {"2.weight"})[2].weight, randomise(model, {"2.weight"})[2].weight)


def test_first_order_scores_point_at_the_edits(bench):
    from partswap.runs.tasks import plan_tasks

    task = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=2).tasks[0]
    query, donors = bench.encodings.select([task.query]), bench.encodings.select(task.distractors)
    scores = first_order(bench.explainer, query, donors, task.target)
    bench.explainer.method = bench.explainer.resolve_method("goyal")
    cf = bench.explainer.explain(query, donors, task.target)
    assert scores.shape == (49,)
    assert scores[cf.edits[0].query_cell] >= scores.sort().values[-10]


def test_stability_under_a_shift(bench):
    found = check_stability(bench, pixels=1, queries=2, distractors=1)
    assert found.shifts == 8
    assert 0 <= found.changed <= 8
    assert found.iou.mean > 0.3
    assert 0 <= found.same_first.mean <= 1
    with pytest.raises(SettingError, match="pixels is 0"):
        check_stability(bench, pixels=0)


def test_an_image_is_shifted_and_reflected():
    pixels = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    moved = np.asarray(shift(Image.fromarray(pixels), 1, -2))
    assert np.array_equal(moved[:3, 1:], pixels[2:, :3])
    assert np.array_equal(moved[:3, 0], pixels[2:, 1])  # what was beside the border
    assert np.array_equal(moved[3, 1:], pixels[3, :3])
    assert np.array_equal(np.asarray(shift(Image.fromarray(pixels), 0, 0)), pixels)


def test_cells_are_moved_back_by_their_centres():
    grid = GridShape(2, 4)  # cells of 20 x 40 pixels on 80 x 80
    assert compare_shifted([0, 1], [0, 1], (5, 0), grid, 80) == (1.0, True)
    assert compare_shifted([0, 1], [1, 2], (20, 0), grid, 80) == (1.0, True)
    assert compare_shifted([0, 1], [2, 1], (20, 0), grid, 80) == (1.0, False)
    assert compare_shifted([0, 1], [0, 1], (20, 0), grid, 80) == (0.5, True)  # cell 0 came in from the border
    assert compare_shifted([3, 0], [5], (20, 0), grid, 80) == (0.0, False)  # cell 3 is pushed out
    assert compare_shifted([3], [3], (20, 0), grid, 80) is None


def test_what_cannot_be_checked_is_named(bench):
    with pytest.raises(SettingError, match="nothing called 'tail'"):
        check_sanity(bench, which=["tail"])
    with pytest.raises(SettingError, match="wants annotated parts"):
        check_stability(bench, method=Hard(by="parts"))
    bare = open_workbench(BIRDS)
    bare.explainer.cut.head.parameters = lambda: iter(())  # a head without weights, such as plain pooling
    with pytest.raises(PartswapError, match="no weights of its own"):
        weights_of(bare, "head")


def test_estimates_show_themselves():
    assert Estimate.of([]).show() == "-"
    assert Estimate.of([0.5]).show(factor=100) == "50.0"
    assert Estimate.of([0.5, 0.5]).show(digits=2) == "0.50 [0.50, 0.50]"
