"""What training feeds on: views behind a frozen trunk, and their caches."""

from dataclasses import replace

import pytest
import torch

from partswap.data.sets.aviary import Aviary
from partswap.data.subset import Subset
from partswap.inputs.preprocess import Preprocess
from partswap.models.zoo import load_model
from partswap.training.batches import BatchSource, Views
from partswap.training.parts import part_targets
from partswap.training.plan import cut_for_training

DATA = Subset(Aviary("train", per_class=1), range(10))
PREPROCESS = Preprocess(96, 112)


@pytest.fixture(scope="module")
def trunk():
    torch.manual_seed(0)
    return cut_for_training(load_model("timm:test_resnet", classes=40).eval(), "layer3", 96)


def feed(trunk, cache, **changes):
    settings = {"preprocess": PREPROCESS, "trunk": trunk, "views": 3, "cache": cache, "seed": 0, **changes}
    return BatchSource(settings.pop("preprocess"), settings.pop("trunk"), settings.pop("views"), **settings)


def folders(cache):
    return {path.name for path in cache.iterdir()}


def test_what_is_fed_is_the_trunks_output_for_a_view_flipped_or_not(trunk, tmp_path):
    views, seen = Views(DATA, PREPROCESS), []
    made = feed(trunk, tmp_path)
    for epoch in range(4):
        for meal in made.epoch(DATA, 4, epoch, 0):
            for row, image, view, flipped in zip(meal.inputs[0], meal.images, meal.views, meal.flipped, strict=True):
                with torch.no_grad():
                    direct = trunk.features(views.tensor(image, view)[None]).values[0]
                direct = direct.flip(2) if flipped else direct
                assert torch.allclose(row, direct, atol=2e-2, rtol=2e-2)
                seen.append((image, view, bool(flipped)))
    assert {image for image, _, _ in seen} == set(range(10))
    assert {view for _, view, _ in seen} == {0, 1, 2}
    assert {flipped for _, _, flipped in seen} == {True, False}
    # View 0 is what the network sees at test time.
    (meal,) = made.test(DATA)
    with torch.no_grad():
        assert torch.allclose(
            meal.inputs[0][3], trunk.features(views.tensor(3, 0)[None]).values[0], atol=2e-2, rtol=2e-2
        )


def test_an_epoch_goes_on_in_the_middle(trunk, tmp_path):
    made = feed(trunk, tmp_path)
    whole, rest = list(made.epoch(DATA, 4, 1, 0)), list(made.epoch(DATA, 4, 1, 2))
    assert [meal.images for meal in whole[2:]] == [meal.images for meal in rest]
    assert all(torch.equal(a.inputs[0], b.inputs[0]) for a, b in zip(whole[2:], rest, strict=True))


def test_other_views_trunks_and_geometry_have_caches_of_their_own(trunk, tmp_path):
    feed(trunk, tmp_path).prepare(DATA)
    known = folders(tmp_path)
    assert len(known) == 3
    feed(trunk, tmp_path).prepare(DATA)
    assert folders(tmp_path) == known
    feed(trunk, tmp_path, preprocess=replace(PREPROCESS, resize=128)).prepare(DATA)
    assert len(folders(tmp_path) - known) == 1  # only view 0 depends on how the centre is cropped
    known = folders(tmp_path)
    feed(trunk, tmp_path, seed=1).prepare(DATA)
    assert len(folders(tmp_path) - known) == 2  # and only the others on the seed
    known = folders(tmp_path)
    torch.manual_seed(1)
    other = cut_for_training(load_model("timm:test_resnet", classes=40).eval(), "layer3", 96)
    feed(other, tmp_path).prepare(DATA)
    assert len(folders(tmp_path) - known) == 3


def test_a_part_of_a_prepared_set_is_not_computed_again(trunk, tmp_path):
    made, part = feed(trunk, tmp_path), Subset(DATA, [7, 2, 5])
    made.prepare(DATA)
    known = folders(tmp_path)
    (whole,), (few,) = list(made.test(DATA)), list(made.test(part))
    assert folders(tmp_path) == known
    assert torch.equal(few.inputs[0], whole.inputs[0][[7, 2, 5]])
    assert few.images == [0, 1, 2]


def test_targets_follow_the_view_that_is_fed():
    """A keypoint lies in the cell of the view, not in that of the image as it is at test time."""
    data = Aviary("train", per_class=1)
    views, grid = Views(data, PREPROCESS), cut_for_training(load_model("timm:test_resnet"), "layer3", 96).grid
    targets = [part_targets(views.sample(4, view), data.parts, grid) for view in range(3)]
    assert all(t.any() for t in targets)
    assert not torch.equal(targets[0], targets[1])
    assert not torch.equal(targets[1], targets[2])
