"""The check of a data set on disk, and its command line."""

import pytest
from PIL import Image
from typer.testing import CliRunner

import trees
from partswap.cli.main import app
from partswap.data import open_dataset
from partswap.data.care.check import check_dataset
from partswap.errors import SettingError
from trees import edit_line

runner = CliRunner()


@pytest.fixture
def cub(tmp_path):
    return trees.cub(tmp_path / "cub")


@pytest.fixture
def inat(tmp_path):
    return trees.inaturalist(tmp_path / "inat")


@pytest.mark.parametrize("name", sorted(trees.TREES))
def test_a_good_tree_passes(name, tmp_path):
    report = check_dataset(name, trees.TREES[name](tmp_path), workers=1)
    assert report.problems == []
    assert report.ok
    assert report.widths == (40, 40)
    assert sum(counts.images for counts in report.splits.values()) == sum(report.modes.values())


def test_the_check_finds_everything_at_once(cub):
    data = open_dataset("cub", cub, "all")
    trees.truncate(data.item(0).path)
    data.item(1).path.unlink()
    data.item(3).mask.unlink()
    Image.new("L", (10, 10), 255).save(data.item(4).mask)
    edit_line(cub / "parts" / "part_locs.txt", 3 * 5 + 1, "4 1 400.0 11.0 1")
    edit_line(cub / "parts" / "part_locs.txt", 8, "not a line")
    with (cub / "parts" / "part_locs.txt").open("a") as file:
        file.write("999 1 4.0 11.0 1\n999 2 4.0 11.0 1\n")
    with (cub / "classes.txt").open("a") as file:
        file.write("9 009.Brewer_Blackbird\n")
    for image in (9, 10, 11):
        edit_line(cub / "train_test_split.txt", image, f"{image} 1")
    trees.write_image(cub / "images" / trees.CUB_CLASSES[1] / "stray.jpg")
    report = check_dataset("cub", cub)
    assert not report.ok
    kinds = report.kinds()
    for kind in ("annotation without image", "missing file", "unreadable file", "missing mask"):
        assert kinds[kind] == 1, kind
    assert kinds["malformed annotation"] == 2  # the line, and no attributes of class 9
    assert kinds["bad mask"] == kinds["keypoint outside the image"] == 1
    empty = {(p.where, p.what) for p in report.problems if p.kind == "empty class"}
    assert ("Brewer Blackbird", "has no image in test") in empty
    assert ("Parakeet Auklet", "has no image in test") in empty
    assert [note.kind for note in report.notes] == ["file in no list"]
    assert report.notes[0].where.endswith("stray.jpg")


@pytest.mark.parametrize(
    ("line", "outside"),
    [
        ("2 0.0 0.0 40.0 30.0", False),
        ("2 1.0 1.0 40.0 30.0", False),  # as some official ones
        ("2 5.0 10.0 37.0 10.0", True),
        ("2 5.0 10.0 20.0 22.0", True),
        ("2 -1.0 10.0 20.0 10.0", False),
        ("2 -3.0 10.0 20.0 10.0", True),
        ("2 5.0 10.0 0.0 10.0", True),
        ("2 nan 10.0 20.0 10.0", True),
    ],
)
def test_the_check_looks_at_boxes(cub, line, outside):
    edit_line(cub / "bounding_boxes.txt", 2, line)
    problems = check_dataset("cub", cub).problems
    assert [p.kind for p in problems] == ["box outside the image"] * outside
    assert all(p.where.endswith("bird_1.jpg") and "on 40 x 30 pixels" in p.what for p in problems)


def test_the_oddities_of_the_official_cub_are_notes(tmp_path):
    root = trees.official_cub(tmp_path)
    report = check_dataset("cub", root)
    assert report.problems == []
    assert {note.kind: note.harmless for note in report.notes} == dict.fromkeys(
        ["keypoint over the edge", "no visible part", "box over the edge"], True
    )
    assert [note.where.rpartition("/")[2] for note in report.notes if "keypoint" in note.kind] == ["bird_1.jpg"] * 2
    assert report.modes == {"RGB": 11, "L": 1}
    shown = runner.invoke(app, ["data", "check", "cub", str(root)])
    assert shown.exit_code == 0, shown.output
    assert "nothing is wrong" in shown.output
    assert "5 notes, all harmless" in shown.output
    data = open_dataset("cub", root, "all")
    assert data.attributes().names[0] == "has_bill::0"
    assert "back" not in data[1].keypoints  # what is outside is left out
    assert data[2].keypoints == {}
    # As if of an image of another size: that gives wrong results.
    edit_line(root / "CUB_200_2011" / "parts" / "part_locs.txt", 6, "2 1 60.0 11.0 1")
    assert check_dataset("cub", root).kinds() == {"keypoint outside the image": 1}


def test_the_check_reads_the_table_of_attributes(cub):
    table = cub / "attributes" / "class_attribute_labels_continuous.txt"
    good = table.read_text().splitlines()
    bad = {
        "line 2: expected percentages": [good[0], "a b c", *good[2:]],
        "line 2: there are 2 values": [good[0], "1 2", *good[2:]],
        "line 2: 101 is no percentage": [good[0], "1 2 101", *good[2:]],
        "line 2: nan is no percentage": [good[0], "1 nan 3", *good[2:]],
        "has 6 rows, but there is a class 7": good[:-1],
        "has 0 rows": [],
    }
    for complaint, lines in bad.items():
        trees.write_lines(table, lines)
        (problem,) = check_dataset("cub", cub).problems
        assert problem.kind == "malformed annotation"
        assert complaint in problem.what
    table.unlink()
    (problem,) = check_dataset("cub", cub).problems
    assert "there is no" in problem.what
    (cub / "attributes" / "attributes.txt").unlink()
    (cub / "attributes").rmdir()
    assert check_dataset("cub", cub).ok  # they are optional


def test_the_check_names_bad_images_even_if_they_are_to_be_left_out(cub):
    open_dataset("cub", cub).item(0).path.unlink()
    assert check_dataset("cub", cub, skip_bad=True).kinds() == {"missing file": 1}
    with pytest.raises(SettingError, match="no split 'train:validation'"):
        check_dataset("cub", cub, split="train:validation")


def test_the_check_knows_classes_with_one_image(tmp_path):
    trees.write_image(tmp_path / "a" / "1.png")
    trees.write_image(tmp_path / "b" / "1.png")
    trees.write_image(tmp_path / "b" / "2.png")
    (tmp_path / "c").mkdir()
    report = check_dataset("folder", tmp_path)
    assert report.kinds() == {"class with one image": 1, "empty class": 1}
    assert report.splits["all"].per_class == (0, 1, 2)


def test_the_check_goes_on_when_one_split_is_broken(inat):
    (inat / "train.json").write_text("{")
    report = check_dataset("inaturalist", inat)
    assert report.kinds() == {"malformed annotation": 1}
    assert report.splits["val"].with_keypoints == 5
    with pytest.raises(SettingError, match="not read from files"):
        check_dataset("aviary", inat)


def test_a_data_set_that_is_drawn_is_looked_at():
    report = check_dataset("aviary", split="test", per_class=1)
    assert report.ok
    assert report.splits["test"].images == report.splits["test"].with_keypoints == 40
    assert (report.classes, report.parts) == (40, 12)


def test_the_command_line_checks(cub, inat, tmp_path):
    good = runner.invoke(app, ["data", "check", "cub", str(cub)])
    assert good.exit_code == 0, good.output
    assert "nothing is wrong" in good.output
    open_dataset("cub", cub).item(0).path.unlink()
    bad = runner.invoke(app, ["data", "check", "cub", str(cub)])
    assert bad.exit_code == 1
    assert "missing file: 1" in bad.output
    assert runner.invoke(app, ["data", "check", "cub", str(cub), "--split", "train"]).exit_code == 0
    birds = runner.invoke(app, ["data", "check", "inaturalist", str(inat), "--option", "supercategory=Birds"])
    assert birds.exit_code == 0, birds.output
    assert "2 classes" in birds.output
    other = ["cub", str(cub), "--option", "supercategory=Birds"]
    for arguments in (["cub"], ["aviary", str(cub)], other, ["cbu", str(cub)]):
        result = runner.invoke(app, ["data", "check", *arguments])
        assert result.exit_code == 1
        assert isinstance(result.exception, ValueError)  # what main() prints on one line


def test_the_command_line_lists():
    result = runner.invoke(app, ["data", "list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("aviary", "cub", "dogs", "folder", "inaturalist"))
