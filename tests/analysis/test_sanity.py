"""Sanity checks: random weights change explanations, small shifts hardly do."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from torch import nn

from partswap.analysis.sanity import (
    Randomised,
    chance_overlap,
    check_sanity,
    first_order,
    randomise,
    sanity_verdict,
    weights_of,
)
from partswap.analysis.stability import check_stability, compare_shifted, shift
from partswap.cut.network import cut_network
from partswap.errors import PartswapError, SettingError
from partswap.grid import GridShape
from partswap.runs.config import RunConfig
from partswap.runs.context import open_run_context
from partswap.runs.tasks import plan_tasks
from partswap.search.methods.hard import Hard
from partswap.utils.estimates import Estimate

BIRDS = RunConfig(data="aviary", model="aviary:vgg", options={"per_class": 1}, precision="float32")


@pytest.fixture(scope="module")
def bench(aviary_cache):
    return open_run_context(BIRDS.with_(auxiliary="aviary", cache=aviary_cache, options={"per_class": 2}))


def test_random_weights_change_explanations(bench):
    before = [p.clone() for p in bench.classifier.model.parameters()]
    found = {r.which: r for r in check_sanity(bench, queries=4, distractors=1)}
    assert set(found) == {"head", "all"}
    assert found["head"].correlation != found["all"].correlation  # other weights are other explanations
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
    monkeypatch.setattr("partswap.analysis.sanity.randomise", lambda model, names, seed: model)
    (row,) = check_sanity(bench, queries=2, distractors=1, which=["head"])
    assert row.overlap.mean == 1
    assert row.correlation.mean == pytest.approx(1)


def row(overlap, interval, chance=0.04, count=40):
    return Randomised(
        "head", Estimate(overlap, interval, count), Estimate(chance, None, count), Estimate(0, None, 1), 0
    )


def test_the_verdict_is_one_line_per_check_and_a_last_one(bench, monkeypatch):
    good, bad, few = row(0.05, (0.02, 0.09)), row(0.9, (0.8, 0.97)), row(0.4, (0.1, 0.8))
    assert good.verdict() == (
        "passes: with a random head the edits share 5 % of cells with the model's own (chance 4 %)."
    )
    assert good.passes
    assert bad.verdict().startswith("FAILS: with a random head the edits share 90 % of cells")
    assert bad.verdict().endswith("they hardly depend on the model.")
    assert few.verdict().endswith("40 queries are too few to tell; use more.")
    assert row(0.05, None, count=1).verdict().startswith("FAILS")
    assert row(None, None, None, 0).verdict().endswith("nothing could be compared.")
    # The middle between chance and all of them decides, with the interval.
    assert row(0.4, (0.3, 0.51)).passes
    assert not row(0.4, (0.3, 0.53)).passes
    assert sanity_verdict([good, good]).startswith("verdict: passes (2 of 2 checks)")
    assert sanity_verdict([good, bad]).startswith("verdict: FAILS (1 of 2 checks pass)")
    # A network that is explained like itself does not pass.
    monkeypatch.setattr("partswap.analysis.sanity.randomise", lambda model, names, seed: model)
    (same,) = check_sanity(bench, queries=3, distractors=1, which=["head"])
    assert not same.passes


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


def test_first_order_scores_are_the_best_gain_by_the_gradient(bench):
    task = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=2).tasks[0]
    query, donors = bench.encodings.select([task.query]), bench.encodings.select(task.distractors)
    grid = query.grids.clone().requires_grad_()
    bench.explainer.cut.head(grid).log_softmax(1)[0, task.target].backward()
    slopes, cells = grid.grad[0].flatten(1).T, query.grids[0].flatten(1).T  # (49, channels)
    theirs = donors.grids.permute(0, 2, 3, 1).flatten(0, 2)  # (2 * 49, channels)
    expected = torch.stack([max((theirs - mine) @ slope) for mine, slope in zip(cells, slopes, strict=True)])
    assert len(set(expected.tolist())) > 40  # cells differ, so that the scores say something
    torch.testing.assert_close(first_order(bench.explainer, query, donors, task.target), expected, rtol=1e-3, atol=1e-5)


def test_stability_is_what_explaining_shifted_images_one_by_one_gives(bench):
    pixels, side = 32, 7  # one cell of a 7 x 7 grid on 224 pixels: cells move to the next row or column
    found = check_stability(bench, method="goyal", pixels=pixels, queries=3, distractors=1)
    explainer, preprocess = bench.explainer, bench.classifier.preprocess
    explainer.method = explainer.resolve_method("goyal")
    planned = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=1).first(3)
    steps = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]  # right, down
    ious, firsts, changed = [], [], 0
    for task in planned.tasks:
        canvas = np.asarray(preprocess.crop(bench.data.image(task.query)))
        views = [ndimage.shift(canvas, (pixels * d, pixels * r, 0), order=0, mode="mirror") for r, d in steps]
        encoded = explainer.encode([preprocess.tensor(Image.fromarray(view)) for view in views])
        said, donors = encoded.logits.argmax(1).tolist(), bench.encodings.select(task.distractors)

        def explained(k, encoded=encoded, donors=donors, target=task.target):
            cf = explainer.explain(encoded.select([k]), donors, target, keep_misclassified=True)
            return [divmod(edit.query_cell, side) for edit in cf.edits]

        scores = []
        for k, (right, down) in enumerate(steps[1:], 1):
            if said[k] != said[0] or said[k] == task.target:
                changed += 1
                continue
            before = [(r, c) for r, c in explained(0) if 0 <= r + down < side and 0 <= c + right < side]
            after = [(r - down, c - right) for r, c in explained(k)]
            after = [(r, c) for r, c in after if 0 <= r < side and 0 <= c < side]
            if before and after:
                iou = len({*before} & {*after}) / len({*before} | {*after})
                scores.append((iou, before[0] == after[0]))
        if scores:
            ious.append(np.mean([iou for iou, _ in scores]))
            firsts.append(np.mean([first for _, first in scores]))
    assert (found.pixels, found.shifts, found.changed) == (32, 12, changed)
    assert 0 < changed < 12  # both kinds are there
    assert len(set(ious)) > 1
    assert found.iou.count == len(ious)
    assert found.iou.mean == pytest.approx(np.mean(ious))
    assert found.same_first.mean == pytest.approx(np.mean(firsts))
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
    pooled = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    tied = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    tied[2].weight, tied[2].bias = tied[0].weight, tied[0].bias  # all its weights are the features' too
    for model in (pooled, tied):
        cut = cut_network(model, "1", probe=torch.randn(1, 3, 16, 16))
        bare = SimpleNamespace(classifier=SimpleNamespace(model=model), explainer=SimpleNamespace(cut=cut))
        with pytest.raises(PartswapError, match="no weights of its own"):
            weights_of(bare, "head")


def test_estimates_show_themselves():
    assert Estimate.of([]).show() == "-"
    assert Estimate.of([0.5]).show(factor=100) == "50.0"
    assert Estimate.of([0.5, 0.5]).show(digits=2) == "0.50 [0.50, 0.50]"
