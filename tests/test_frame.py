"""Boxes and masks of edits, in pixels of the images as they were passed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from partswap import Counterfactual, Edit, Explainer, GridShape, Preprocess, Step, aviary
from partswap.errors import SettingError
from partswap.inputs.frame import Frame

SIZE = 56
GRID = GridShape(7, 7)
RED, BLUE = (255, 0, 0), (0, 0, 255)


def explained(grid: GridShape, frames: list[Frame], cells: tuple[int, int]) -> Counterfactual:
    """Return a counterfactual of one edit, of images seen through frames."""
    query, donor = ({"size": list(f.size), "box": list(f.box)} for f in frames)
    return Counterfactual(
        0, 1, grid, 1, (Edit(*cells, 0),), Step(0.1, 0), (Step(0.9, 1),), True,
        source={"seen": {"canvas": [SIZE, SIZE], "query": query, "distractors": [donor]}},
    )  # fmt: skip


@pytest.mark.parametrize("cells", [(0, 48), (24, 6), (43, 30)])
@pytest.mark.parametrize(
    "prepare",
    [
        Preprocess(SIZE),
        Preprocess(SIZE, resize=80),
        Preprocess(SIZE, fit="squash"),
        Preprocess((56, 112), resize=60),
    ],
    ids=["crop", "resize and crop", "squash", "oblong"],
)
@pytest.mark.parametrize("sizes", [((300, 180), (131, 402)), ((56, 56), (64, 90))])
def test_a_box_is_what_the_model_sees_as_that_cell(sizes, prepare, cells):
    frames = [Frame(size, prepare.box(size)) for size in sizes]
    cf = explained(GRID, frames, cells)
    edit = cf.edits[0]
    for frame, box, cell in zip(frames, (edit.query_box, edit.distractor_box), cells, strict=True):
        image = Image.new("RGB", frame.size, BLUE)
        # Painted finer than its pixels, then shrunk: the box has fractions of them.
        fine = image.resize((8 * image.width, 8 * image.height))
        left, top, right, bottom = (round(8 * edge) for edge in box)
        ImageDraw.Draw(fine).rectangle((left, top, right - 1, bottom - 1), fill=RED)
        seen = np.asarray(prepare.crop(fine.resize(frame.size, Image.Resampling.BOX)))[..., 0] / 255
        height, width = seen.shape
        x1, y1, x2, y2 = GRID.box(cell, (width, height))
        truth = np.zeros_like(seen)
        truth[round(y1) : round(y2), round(x1) : round(x2)] = 1
        # Resizing smears an edge over the pixels of the coarser image.
        smear = 0.75 * max(1, width / (frame.box[2] - frame.box[0]), height / (frame.box[3] - frame.box[1]))
        assert np.abs(seen - truth).sum() < 2 * (x2 - x1 + y2 - y1) * smear
        assert seen[int((y1 + y2) / 2), int((x1 + x2) / 2)] > 0.9


def test_the_boxes_of_all_cells_tile_what_the_model_sees():
    frame = Frame((300, 180), (60.0, 0.0, 240.0, 180.0))
    boxes = [frame.cell_box(GRID, cell) for cell in range(GRID.cells)]
    masks = [frame.mask([box]) for box in boxes]
    seen = np.zeros((180, 300), int)
    seen[:, 60:240] = 1
    assert np.array_equal(np.sum(masks, 0), seen)
    assert frame.mask(boxes).sum() == 180 * 180


def test_a_box_ends_where_the_image_does():
    padded = Frame((40, 20), (0.0, -10.0, 40.0, 30.0))
    assert padded.cell_box(GridShape(4, 4), 0) == (0, 0, 10, 0)
    assert padded.cell_box(GridShape(2, 2), 3) == (20, 10, 40, 20)


def test_a_mask_is_of_the_cells_that_edits_touch():
    cf = explained(GRID, [Frame((300, 180), (60.0, 0.0, 240.0, 180.0)), Frame.whole((70, 140))], (9, 48))
    cf = replace(cf, edits=(*cf.edits, Edit(24, 0, 0)), trace=cf.trace * 2)
    mask = cf.mask()
    assert mask.shape == (180, 300)
    assert mask[40, 60 + 60]
    assert mask[90, 150]
    assert mask.sum() == pytest.approx(2 * 180 * 180 / 49, rel=0.05)
    taken = cf.mask(distractor=0)
    assert np.flatnonzero(taken.any(1)).tolist() == [*range(20), *range(120, 140)]
    assert np.flatnonzero(taken.any(0)).tolist() == [*range(10), *range(60, 70)]
    with pytest.raises(SettingError, match="no distractor 1"):
        cf.mask(distractor=1)


@pytest.fixture(scope="module")
def explainer():
    return Explainer("aviary:vgg", auxiliary="none")


def test_an_explanation_of_oblong_photographs_has_boxes_in_their_pixels(explainer, tmp_path):
    def oblong(species: int, seed: int) -> Image.Image:
        wide = Image.new("RGB", (500, 336), "grey")
        wide.paste(aviary.draw(species, seed).image.resize((336, 336)), (82, 0))
        return wide

    oblong(0, 7).save(tmp_path / "query.png")
    cf = explainer.explain(tmp_path / "query.png", [oblong(1, seed) for seed in range(2)], 1)
    left, top, right, bottom = cf.edits[0].query_box
    row, col = cf.grid.row_col(cf.edits[0].query_cell)
    assert (left, top) == pytest.approx((82 + 48 * col, 48 * row), abs=1)
    assert (right - left, bottom - top) == pytest.approx((48, 48), abs=0.5)
    assert cf.mask().shape == (336, 500)
    again = Counterfactual.load(cf.save(tmp_path / "why.json"))
    assert again.edits[0].query_box == cf.edits[0].query_box
    assert "query_box" not in (tmp_path / "why.json").read_text()


def test_of_a_tensor_they_are_in_its_own_pixels_and_unknown_where_nobody_knows(explainer):
    tensors = [explainer.preprocess.tensor(aviary.draw(k, k).image) for k in range(2)]
    cf = explainer.explain(tensors[0], [tensors[1]], 1)
    side = explainer.preprocess.side
    assert cf.edits[0].query_box == cf.grid.box(cf.edits[0].query_cell, (side, side))
    assert cf.mask().shape == (side, side)
    bare = replace(cf, pictures=None, source={})
    assert bare.edits[0].query_box is None
    with pytest.raises(SettingError, match="with_images"):
        bare.mask()
    shown = bare.with_images(aviary.draw(0, 7).image, [aviary.draw(1, 1).image])
    assert shown.mask().shape == aviary.draw(0, 7).image.size
