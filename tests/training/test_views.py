"""Images and annotations through the same geometry, and the sheet to look at them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import trees
from partswap.cli.main import app
from partswap.data import open_dataset
from partswap.data.base import Sample
from partswap.data.care.sheet import choose, contact_sheet, part_colors, shorten
from partswap.data.geometry import RandomView, on_canvas
from partswap.errors import SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.utils.sides import swap_sides

runner = CliRunner()


def dotted(size, x, y, radius=4):
    """A black image with a white square around the keypoint, and the same square as mask."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    column, row = int(x), int(y)
    box = slice(max(row - radius, 0), row + radius + 1), slice(max(column - radius, 0), column + radius + 1)
    pixels[box] = 255
    mask = pixels[..., 0] > 0
    return Sample("dot", Image.fromarray(pixels), 0, {"left eye": [(x, y)]}, mask, {"left eye": mask})


points = st.tuples(
    st.integers(40, 120), st.integers(40, 120), st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True)
)


def check_together(before, after, x_scale, y_scale):
    """The keypoint is where the dot is, and gone where it is not."""
    width, height = after.image.size
    found = [p for points in after.keypoints.values() for p in points]
    bright = np.asarray(after.image)[..., 0] > 100
    for mask in (after.mask, *after.part_masks.values()):
        assert mask.shape == (height, width)
    if found:
        x, y = found[0]
        assert 0 <= x < width
        assert 0 <= y < height
        assert after.mask[int(y), int(x)]
        assert bright[int(y), int(x)]
        left, right = x - 4.5 * x_scale, x + 4.5 * x_scale
        top, bottom = y - 4.5 * y_scale, y + 4.5 * y_scale
        uncut = left > 2 and top > 2 and right < width - 2 and bottom < height - 2
        source_uncut = min(before.keypoints["left eye"][0]) >= 5 and all(
            v < side - 5 for v, side in zip(before.keypoints["left eye"][0], before.image.size, strict=True)
        )
        if uncut and source_uncut:
            rows, columns = np.nonzero(after.mask)
            assert abs(columns.mean() + 0.5 - x) <= 1 + x_scale
            assert abs(rows.mean() + 0.5 - y) <= 1 + y_scale
    else:
        rows, columns = np.nonzero(after.mask)
        reach = 5 * max(x_scale, y_scale) + 1
        at_edge = (columns < reach) | (columns >= width - reach) | (rows < reach) | (rows >= height - reach)
        assert at_edge.all()  # only the rim of the dot may still show


@given(points, st.sampled_from([(48, None), (64, 80), (96, 112)]))
def test_a_keypoint_and_its_dot_reach_the_same_place_on_the_canvas(point, sides):
    width, height, across, down = point
    sample = dotted((width, height), across * width, down * height)
    preprocess = Preprocess(sides[0], sides[1])
    seen = on_canvas(sample, preprocess)
    assert seen.image.tobytes() == preprocess.crop(sample.image).tobytes()
    new_width, new_height, _, _ = preprocess.geometry(sample.image.size)
    check_together(sample, seen, new_width / width, new_height / height)


@given(points, st.integers(0, 10_000))
def test_a_keypoint_and_its_dot_reach_the_same_place_in_a_view(point, seed):
    width, height, across, down = point
    sample = dotted((width, height), across * width, down * height)
    seen = RandomView(96, scale=(0.5, 1.0))(sample, seed)
    assert seen.image.size == (96, 96)
    check_together(sample, seen, 96 / (0.6 * width), 96 / (0.6 * height))


def test_keypoints_that_leave_the_canvas_are_gone():
    sample = Sample("wide", Image.new("RGB", (300, 100)), 0, {"beak": [(5, 50)], "tail": [(150, 50), (295, 50)]})
    assert on_canvas(sample, Preprocess(100)).keypoints == {"tail": [(50, 50)]}
    assert on_canvas(replace(sample, keypoints={}), Preprocess(100)).keypoints == {}
    assert on_canvas(replace(sample, keypoints=None), Preprocess(100)).keypoints is None


def test_a_view_belongs_to_its_seed_and_disturbs_nothing():
    sample = dotted((80, 60), 30, 20)
    view = RandomView(32)
    state = torch.random.get_rng_state()
    first, again, other = view(sample, 1), view(sample, 1), view(sample, 2)
    assert torch.equal(state, torch.random.get_rng_state())
    assert first.image.tobytes() == again.image.tobytes()
    assert first.keypoints == again.keypoints
    assert first.image.tobytes() != other.image.tobytes()


def test_left_and_right_change_places_in_the_mirror():
    assert [swap_sides(p) for p in ("left eye", "right front paw", "tail", "left")] == [
        "right eye", "left front paw", "tail", "left",
    ]  # fmt: skip
    sample = dotted((64, 64), 0, 20)
    whole = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0)}
    seen = [RandomView(64, **whole)(sample, seed) for seed in range(20)]
    sides = {next(iter(one.keypoints)) for one in seen}
    assert sides == {"left eye", "right eye"}
    for one in seen:
        mirrored = "right eye" in one.keypoints
        assert one.keypoints == {("right eye" if mirrored else "left eye"): [(63.5 if mirrored else 0.5, 20.5)]}
        assert one.mask[20, 63 if mirrored else 0]
        assert set(one.part_masks) == set(one.keypoints)
    assert all("left eye" in RandomView(64, flip=False, **whole)(sample, s).keypoints for s in range(10))


def test_views_refuse_nonsense():
    for wrong in ({"size": 0}, {"scale": (0.5, 0.1)}, {"ratio": (0, 1)}):
        with pytest.raises(SettingError):
            RandomView(**wrong)


def test_a_sheet_shows_as_many_classes_as_it_can(tmp_path):
    data = open_dataset("cub", trees.cub(tmp_path), "all")
    chosen = choose(data, 3, 0)
    assert sorted(data.labels()[chosen].tolist()) == [0, 1, 2]
    assert len(choose(data, 99, 0)) == len(data)
    assert choose(data, 5, 0) == choose(data, 5, 0) != choose(data, 5, 1)
    sheet = contact_sheet(data, 5, 3, preprocess=Preprocess(64))
    assert sheet.mode == "RGB"
    assert sheet.width > 3 * 64
    assert sheet.tobytes() == contact_sheet(data, 5, 3, preprocess=Preprocess(64)).tobytes()
    for color in part_colors(data.parts).values():  # in the legend at least
        assert (np.asarray(sheet) == color).all(2).any()
    with pytest.raises(SettingError):
        contact_sheet(data, 0)


def test_long_captions_end_in_an_ellipsis():
    assert shorten("Owl", 100) == "Owl"
    cut = shorten("American Three toed Woodpecker", 100)
    assert cut.startswith("American")
    assert cut.endswith("…")


def test_the_command_line_draws_a_sheet(tmp_path):
    root = trees.cub(tmp_path / "cub")
    out = tmp_path / "new" / "sheet.png"
    command = ["data", "show", "cub", str(root), "--out", str(out), "--count", "4", "--columns", "2", "--split", "all"]
    assert runner.invoke(app, command).exit_code == 0
    assert Image.open(out).width == 2 * 28 + 2 * 224 + 14
    trees.truncate(open_dataset("cub", root, "all").item(0).path)
    skipped = runner.invoke(app, [*command, "--count", "12", "--option", "skip_bad=true"])
    assert skipped.exit_code == 0
    assert "left out" in skipped.output
    assert runner.invoke(app, ["data", "show", "cub", str(root), "--out", str(tmp_path / "sheet.what")]).exit_code == 1
    drawn = runner.invoke(app, ["data", "show", "aviary", "--out", str(out), "--count", "2"])
    assert drawn.exit_code == 0
