import itertools

import numpy as np
import pytest

from partswap import aviary
from partswap.aviary.sheet import contact_sheet
from partswap.data.sets.aviary import Aviary, bare_code
from partswap.errors import ClassIndexError, SettingError
from partswap.utils.sides import merge_sides

SPECIES = aviary.all_species()


def test_there_are_enough_species_in_families():
    families = {s.family for s in SPECIES}
    assert len(SPECIES) >= 30
    assert len(families) >= 8
    assert len({s.name for s in SPECIES}) == len(SPECIES)


def test_species_of_a_family_differ_in_one_to_three_attributes():
    for a, b in itertools.combinations(SPECIES, 2):
        differing = [k for k in a.attributes if a.attributes[k] != b.attributes[k]]
        assert aviary.differing_parts(a.index, b.index) == {aviary.ATTRIBUTE_PARTS[k] for k in differing}
        if a.family == b.family:
            assert 1 <= len(differing) <= 3, (a.name, b.name, differing)


def test_every_part_is_somewhere_the_one_that_matters():
    mattering = set()
    for a, b in itertools.combinations(SPECIES, 2):
        if a.family == b.family:
            mattering |= aviary.differing_parts(a.index, b.index)
    assert mattering == set(aviary.PARTS)


def test_the_same_seed_draws_the_same_bird_and_another_does_not():
    one, same, other = aviary.draw(5, 1), aviary.draw(5, 1), aviary.draw(5, 2)
    assert np.array_equal(one.pixels, same.pixels)
    assert one.keypoints == same.keypoints
    assert not np.array_equal(one.pixels, other.pixels)


@pytest.mark.parametrize("species", range(len(SPECIES)), ids=[s.name for s in SPECIES])
def test_a_bird_is_what_its_ground_truth_says(species):
    bird = aviary.draw(species, 11)
    assert bird.pixels.shape == (224, 224, 3)
    assert set(bird.keypoints) == set(aviary.KEYPOINTS)
    assert sum(v for _, _, v in bird.keypoints.values()) >= 6
    assert 0.04 < bird.mask.mean() < 0.6
    union = np.zeros_like(bird.mask)
    for mask in bird.part_masks.values():
        assert not (mask & ~bird.mask).any()
        union |= mask
    assert union.sum() > 0.7 * bird.mask.sum()


def test_visible_keypoints_lie_on_or_at_their_part():
    near = total = 0
    for species, seed in itertools.product(range(0, 40, 3), range(4)):
        bird = aviary.draw(species, seed)
        for name, (x, y, visible) in bird.keypoints.items():
            if not visible:
                continue
            mask = bird.part_mask(merge_sides(name))
            window = mask[max(int(y) - 7, 0) : int(y) + 8, max(int(x) - 7, 0) : int(x) + 8]
            near += window.any()
            total += 1
    assert near / total > 0.9


def test_two_species_differ_only_where_their_parts_do():
    """The same pose in two plumages: pixels change inside the differing parts, and nowhere else on the bird."""
    for a, b in ((0, 1), (8, 9), (16, 17), (28, 29)):
        differing = aviary.differing_parts(a, b)
        first, second = _twins(a, b)
        changed = np.abs(first.pixels.astype(int) - second.pixels.astype(int)).sum(2) > 30
        allowed = np.zeros((224, 224), bool)
        for part in differing:
            allowed |= first.part_mask(part) | second.part_mask(part)
        allowed = _grown(allowed, 4)
        assert changed.any()
        assert (changed & ~allowed).sum() < 0.05 * changed.sum()


def _twins(a, b, monkeypatch_seed=(0, 9)):
    """Draw two species of one family with one stream of random numbers."""
    from unittest import mock

    real = np.random.default_rng

    def shared(entropy):
        return real((99, *entropy[1:]))

    with mock.patch("partswap.aviary.world.np.random.default_rng", shared):
        return aviary.draw(a, monkeypatch_seed), aviary.draw(b, monkeypatch_seed)


def _grown(mask, by):
    out = mask.copy()
    for dy, dx in itertools.product(range(-by, by + 1), repeat=2):
        out |= np.roll(mask, (dy, dx), (0, 1))
    return out


def test_heads_can_be_anywhere():
    cells = set()
    for seed in range(60):
        x, y, visible = aviary.draw(0, seed).keypoints["crown"]
        if visible:
            cells.add((int(y // 32), int(x // 32)))
    assert len(cells) >= 10


def test_left_and_right_follow_the_view():
    seen = {tuple(k for k in ("left wing", "right wing") if aviary.draw(2, s).keypoints[k][2]) for s in range(20)}
    assert {("left wing",), ("right wing",)} <= seen


def test_splits_share_no_image():
    train, test = Aviary("train", per_class=1), Aviary("test", per_class=1)
    assert not np.array_equal(train.bird(0).pixels, test.bird(0).pixels)


def test_drawing_on_many_processes_gives_the_same_birds():
    data = Aviary("test", per_class=1)
    assert np.array_equal(data.pixels(workers=2), data.pixels())


def test_a_contact_sheet_has_all_species():
    assert contact_sheet(0, keypoints=True).size == (8 * 224, 5 * 224)


def test_bad_input_is_named():
    with pytest.raises(ClassIndexError, match="no species 40"):
        aviary.draw(40)
    with pytest.raises(SettingError, match="Did you mean 'test'"):
        Aviary("tset")
    with pytest.raises(SettingError, match="per_class is 0"):
        Aviary(per_class=0)
    with pytest.raises(IndexError, match="there is no image 40"):
        Aviary(per_class=1)[40]


def test_the_key_of_code_is_what_the_code_does():
    source = '''"""A bird."""
from math import pi
def wing(span):
    """Draw it."""
    import os  # not needed
    return span * 2
'''
    assert bare_code(source) == bare_code("import math\n\ndef wing(span):\n    return (span*2) # larger\n")
    assert bare_code(source) != bare_code(source.replace("2", "3"))
    assert bare_code(source) != bare_code(source.replace("return", "print('wing'); return"))
    assert bare_code('x = "text"') != bare_code('x = "other"')


def test_the_fingerprint_of_drawn_birds_is_computed_once(monkeypatch):
    first = Aviary("test", per_class=3, seed=7).fingerprint()
    monkeypatch.setattr(aviary, "draw", None)
    assert Aviary("test", per_class=3, seed=7).fingerprint() == first
