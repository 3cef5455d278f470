"""Regions in pixels: what is pasted where, exactly."""

import itertools

import numpy as np
import pytest
from PIL import Image

from partswap import GridShape, find_counterfactual
from partswap.errors import SettingError, ShapeError
from partswap.pixels.composite import Paste, composite, outlined, paste_cells

GRID = GridShape(7, 7)


@pytest.fixture
def pictures():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (56, 56, 3), dtype=np.uint8) for _ in range(4)]


def cell_of(picture, cell):
    left, top, right, bottom = (round(v) for v in GRID.box(cell, (56, 56)))
    return picture[top:bottom, left:right]


@pytest.mark.parametrize("how", [Paste(), Paste(1.0, 0.0), Paste(2.0, 0.25), Paste(3.0, 0.6)])
def test_a_cell_is_the_donors_and_far_away_the_query_is_untouched(pictures, how):
    query, *distractors = pictures
    pairs = [(8, 2 * 49 + 40), (40, 6)]
    made = paste_cells(query, distractors, pairs, GRID, how)
    reach = np.zeros((56, 56), bool)
    for cell, distractor in pairs:
        image, place = divmod(distractor, 49)
        assert np.array_equal(cell_of(made, cell), cell_of(distractors[image], place))
        row, col = GRID.row_col(cell)
        far = round(how.scale * 4)
        y, x = 8 * row + 4, 8 * col + 4
        reach[max(0, y - far) : y + far, max(0, x - far) : x + far] = True
    assert np.array_equal(made[~reach], query[~reach])
    assert made.dtype == np.uint8


def test_between_the_cell_and_the_edge_it_fades(pictures):
    query, distractor = np.zeros((56, 56, 3), np.uint8), np.full((56, 56, 3), 200, np.uint8)
    made = paste_cells(query, [distractor], [(24, 24)], GRID)[28, :, 0].astype(int)
    assert made[28] == 200
    assert made[19] == made[36] == 0
    falling = made[31:37]
    assert all(a >= b for a, b in itertools.pairwise(falling))
    assert 0 < falling[2] < 200


def test_the_order_of_edits_does_not_matter_and_overlapping_cells_are_their_own_donors(pictures):
    query, *distractors = pictures
    pairs = [(24, 3), (25, 49 + 10), (31, 2 * 49 + 17)]
    made = [paste_cells(query, distractors, list(order), GRID) for order in itertools.permutations(pairs)]
    assert all(np.array_equal(made[0], other) for other in made)
    for cell, distractor in pairs:
        assert np.array_equal(cell_of(made[0], cell), cell_of(distractors[distractor // 49], distractor % 49))


def test_patches_end_at_the_borders_of_both_images(pictures):
    query, *distractors = pictures
    for cell, distractor in itertools.product((0, 6, 42, 48), repeat=2):
        made = paste_cells(query, distractors, [(cell, distractor)], GRID)
        assert np.array_equal(cell_of(made, cell), cell_of(distractors[0], distractor))


def test_a_grid_that_does_not_divide_the_image_still_fits():
    rng = np.random.default_rng(1)
    query, distractor = rng.integers(0, 256, (2, 45, 61, 3), dtype=np.uint8)
    for grid, pair in ((GridShape(7, 9), (62, 0)), (GridShape(3, 4), (0, 11))):
        assert paste_cells(query, [distractor], [pair], grid).shape == query.shape


def test_colors_are_matched_to_the_ring_around():
    query, distractor = np.full((56, 56, 3), 40, np.uint8), np.full((56, 56, 3), 220, np.uint8)
    distractor[24:32, 24:32] = 250  # the cell itself is 30 lighter than what is around it
    plain, matched = (paste_cells(query, [distractor], [(24, 24)], GRID, Paste(match=m)) for m in (False, True))
    assert plain[28, 28, 0] == 250
    assert matched[28, 28, 0] == 70
    assert matched[28, 35, 0] == 40


def test_no_edits_are_the_query_itself(pictures):
    assert np.array_equal(paste_cells(pictures[0], pictures[1:], [], GRID), pictures[0])


@pytest.mark.parametrize("bad", [{"scale": 0}, {"scale": float("nan")}, {"feather": -0.1}, {"feather": 1.5}])
def test_settings_are_checked(bad):
    with pytest.raises(SettingError, match=next(iter(bad))):
        Paste(**bad)


def test_images_of_two_sizes_are_refused(pictures):
    with pytest.raises(ShapeError, match="56 x 56"):
        paste_cells(pictures[0], [pictures[1][:40]], [(0, 0)], GRID)


def test_a_counterfactual_gives_its_composite_and_its_image(problem, pictures):
    cf = find_counterfactual(**problem)
    with pytest.raises(SettingError, match="with_images"):
        cf.composite()
    images = [Image.fromarray(p) for p in (*pictures, pictures[1])]
    shown = cf.with_images(images[0], images[1:])
    pairs = [(e.query_cell, e.distractor_cell) for e in cf.edits]
    assert shown.composite().tobytes() == composite(images[0], images[1:], pairs, cf.grid).tobytes()
    assert shown.composite(scale=1, feather=0).tobytes() != shown.composite().tobytes()
    drawn = shown.outlined()
    blurred = shown.outlined(blur=True)
    assert drawn.size == blurred.size == (56, 56)
    assert drawn.tobytes() != images[0].tobytes()
    for picture in (drawn, blurred):
        inside = np.asarray(picture)[8 * (cf.edits[0].query_cell // 7) + 3, 8 * (cf.edits[0].query_cell % 7) + 3]
        place = 8 * (cf.edits[0].query_cell // 7) + 3, 8 * (cf.edits[0].query_cell % 7) + 3
        assert np.array_equal(inside, pictures[0][place])


def test_outlines_of_neighbors_stay_inside_their_regions():
    plain = Image.new("RGB", (224, 224), "teal")
    halves = [(0.25, 0.25, 0.5, 0.5), (0.5, 0.25, 0.75, 0.5)]
    both = np.asarray(outlined(plain, halves, ["#ff0000", "#00ff00"], inset=True))
    for (left, top, right, bottom), color in zip(halves, ["#ff0000", "#00ff00"], strict=True):
        alone = np.asarray(outlined(plain, [(left, top, right, bottom)], [color], inset=True))
        x1, y1, x2, y2 = (round(224 * edge) for edge in (left, top, right, bottom))
        assert np.array_equal(both[y1:y2, x1:x2], alone[y1:y2, x1:x2])
        changed = (alone != np.asarray(plain)).any(-1)
        changed[y1:y2, x1:x2] = False
        assert not changed.any()


def test_outlines_at_the_border_stay_inside_the_picture():
    made = np.asarray(outlined(Image.new("RGB", (56, 56), "teal"), [(0, 0, 0.25, 0.25)], ["#ffffff"]))
    assert (made[0, 0] == 255).all()
