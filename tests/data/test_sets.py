"""Data sets on disk: what they read, what they refuse, and what the check finds."""

import json
import os

import numpy as np
import pytest
from PIL import Image

import trees
from partswap.data import Attributes, open_dataset
from partswap.data.attribute_parts import attribute_part
from partswap.data.care.check import check_dataset
from partswap.data.pairs import nearest_by_attributes
from partswap.data.rle import RunLengths, uncompress
from partswap.errors import DataError, ImageError, SettingError
from partswap.utils.options import parse_options
from trees import edit_line


@pytest.fixture
def cub(tmp_path):
    return trees.cub(tmp_path / "cub")


@pytest.fixture
def dogs(tmp_path):
    return trees.dogs(tmp_path / "dogs")


@pytest.fixture
def inat(tmp_path):
    return trees.inaturalist(tmp_path / "inat")


# CUB


def test_cub_numbers_classes_without_gaps(cub):
    data = open_dataset("cub", cub, "all")
    assert data.classes == ["Black footed Albatross", "Sooty Albatross", "Parakeet Auklet"]
    assert data.labels().tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(open_dataset("cub", cub, "train")) == len(open_dataset("cub", cub, "test")) == 6


def test_cub_merges_left_and_right_on_request(cub):
    merged, apart = open_dataset("cub", cub), open_dataset("cub", cub, merge_sides=False)
    assert merged.parts == ["back", "beak", "eye", "tail"]
    assert merged[0].keypoints == {"back": [(6, 11)], "beak": [(7, 12)], "eye": [(8, 13), (9, 14)]}
    assert apart.parts == trees.CUB_PARTS
    assert apart[0].keypoints["right eye"] == [(9, 14)]


def test_cub_reads_masks_boxes_and_attributes(cub):
    data = open_dataset("cub", cub, "all")
    for index in range(2):  # greyscale, 1-bit
        assert data[index].mask.sum() == 200
        assert data[index].mask[10:20, 5:25].all()
    assert data.box(3) == (5, 10, 20, 10)
    attributes = data.attributes()
    assert attributes.names == ["has_bill::0", "has_bill::1", "has_bill::2"]
    assert np.allclose(attributes.share[2], [0.6, 0.7, 0.8])  # the class with id 7 is row 6


def test_cub_tells_by_attributes_in_which_parts_classes_differ(cub):
    names = ["has_bill_shape::cone", "has_upper_tail_color::red", "has_eye_color::red", "has_size::small"]
    table = [["0.0"] * len(names) for _ in range(7)]
    table[0] = ["90.0", "10.0", "51.0", "100.0"]  # classes 1, 3 and 7
    table[2] = ["60.0", "80.0", "50.0", "0.0"]  # half is not more than half
    table[6] = [*table[0][:3], "0.0"]
    trees.write_lines(cub / "attributes" / "class_attribute_labels_continuous.txt", [" ".join(row) for row in table])
    trees.write_lines(cub / "attributes" / "attributes.txt", [f"{i} {name}" for i, name in enumerate(names, 1)])
    data = open_dataset("cub", cub)
    assert data.differing_parts(0, 1) == data.differing_parts(1, 0) == {"tail", "eye"}
    assert data.differing_parts(0, 2) == frozenset()  # they differ in size, which is no part
    apart = open_dataset("cub", cub, merge_sides=False)
    assert apart.differing_parts(0, 1) == {"tail", "left eye", "right eye"}
    (cub / "attributes" / "attributes.txt").unlink()  # without names nobody knows what belongs where
    assert open_dataset("cub", cub).differing_parts(0, 1) is None
    (cub / "attributes" / "class_attribute_labels_continuous.txt").unlink()
    assert open_dataset("cub", cub).differing_parts(0, 1) is None


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("has_bill_shape::curved_(up_or_down)", "beak"),
        ("has_bill_length::about_the_same_as_head", "beak"),
        ("has_back_pattern::solid", "back"),
        ("has_under_tail_color::iridescent", "tail"),
        ("has_tail_shape::forked_tail", "tail"),
        ("has_underparts_color::blue", None),
        ("has_upperparts_color::blue", None),
        ("has_primary_color::blue", None),
        ("has_shape::gull-like", None),
        ("has_head_pattern::capped", "crown"),
        ("has_head_pattern::eyering", "eye"),
        ("has_head_pattern::malar", "throat"),
        ("has_head_pattern::plain", None),
        ("attribute 7", None),
    ],
)
def test_attributes_belong_to_parts(name, part):
    assert attribute_part(name) == part


def test_cub_in_the_layout_of_the_official_archives(tmp_path):
    root = trees.cub(tmp_path / "CUB_200_2011")
    (root / "segmentations").rename(tmp_path / "segmentations")
    (root / "attributes" / "attributes.txt").rename(tmp_path / "attributes.txt")
    data = open_dataset("cub", tmp_path)
    assert data[0].mask.sum() == 200
    assert data.attributes().names[0] == "has_bill::0"


def test_cub_without_optional_files(cub):
    for file in ("parts/part_locs.txt", "bounding_boxes.txt", "attributes/class_attribute_labels_continuous.txt"):
        (cub / file).unlink()
    (cub / "segmentations").rename(cub / "elsewhere")
    data = open_dataset("cub", cub)
    assert data[0].keypoints is None
    assert data[0].mask is None
    assert data.box(0) is None
    assert data.attributes() is None
    assert data.parts == []


@pytest.mark.parametrize(
    ("file", "line", "text", "says"),
    [
        ("parts/part_locs.txt", 17, "4 2 x 12.0 1", "part_locs.txt line 17: expected image id, part id"),
        ("parts/part_locs.txt", 17, "4 99 7.0 12.0 1", "part_locs.txt line 17: there is no part 99"),
        ("parts/part_locs.txt", 17, "4 2 7.0 12.0 yes", "part_locs.txt line 17: whether"),
        ("images.txt", 3, "3", "images.txt line 3: expected an id and a path"),
        ("image_class_labels.txt", 5, "5 2", "image_class_labels.txt line 5: there is no class 2"),
        ("train_test_split.txt", 5, "5 maybe", "train_test_split.txt line 5: expected two ids"),
        ("bounding_boxes.txt", 2, "2 1 2 3", "bounding_boxes.txt line 2: expected image id, x"),
        ("image_class_labels.txt", 5, "", "image_class_labels.txt has no line for image 5"),
    ],
)
def test_a_malformed_line_is_named(cub, file, line, text, says):
    edit_line(cub / file, line, text)
    with pytest.raises(DataError, match=says):
        open_dataset("cub", cub)
    assert any(says in problem.what for problem in check_dataset("cub", cub).problems)


def test_attribute_tables_that_do_not_fit_are_refused(cub):
    table = cub / "attributes" / "class_attribute_labels_continuous.txt"
    edit_line(table, 4, "1.0 2.0")
    with pytest.raises(DataError, match="line 4"):
        open_dataset("cub", cub).attributes()
    trees.write_lines(table, ["1.0 2.0 3.0"] * 5)
    with pytest.raises(DataError, match="5 rows"):
        open_dataset("cub", cub).attributes()
    trees.write_lines(table, ["1.0 2.0"] * 7)
    with pytest.raises(DataError, match="names 3 attributes"):
        open_dataset("cub", cub).attributes()


def test_a_folder_that_is_not_there_or_is_something_else(tmp_path):
    with pytest.raises(DataError, match="no folder"):
        open_dataset("cub", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"images\.txt"):
        open_dataset("cub", tmp_path)
    with pytest.raises(DataError, match="train_list"):
        open_dataset("dogs", tmp_path, "train")
    with pytest.raises(DataError, match=r"val\.json"):
        open_dataset("inaturalist", tmp_path)
    with pytest.raises(DataError, match="no class folders"):
        open_dataset("folder", tmp_path)


# Images of all kinds


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "1", "LA"])
def test_every_image_comes_out_as_rgb(cub, mode):
    data = open_dataset("cub", cub)
    trees.write_image(data.item(0).path, mode=mode, format="JPEG" if mode in ("L", "CMYK") else "PNG")
    assert data[0].image.mode == "RGB"
    assert check_dataset("cub", cub).modes[mode] == 1


def test_the_pixels_stay_where_the_annotations_are_whatever_exif_says(cub):
    data = open_dataset("cub", cub)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    trees.write_image(data.item(0).path, exif=exif)
    assert data[0].image.size == trees.SIZE


def test_bad_images_raise_or_are_skipped(cub):
    data = open_dataset("cub", cub, "all")
    trees.truncate(data.item(1).path)
    data.item(4).path.unlink()
    data.item(6).path.write_text("not an image")
    for index in (1, 4, 6):
        with pytest.raises(ImageError, match=data.item(index).path.name):
            data[index]
    with pytest.raises(DataError, match=r"bird_4\.jpg is missing"):
        data.fingerprint()
    kept = open_dataset("cub", cub, "all", skip_bad=True)
    assert len(kept) == 9
    assert kept.labels().tolist() == [0] * 3 + [1] * 2 + [2] * 4
    assert [name.rpartition("/")[2] for name, _ in kept.skipped] == ["bird_1.jpg", "bird_4.jpg", "bird_6.jpg"]
    assert "truncated" in kept.skipped[0][1]
    assert kept.box(1) == (5, 10, 20, 10)
    assert kept.fingerprint()


def test_nothing_to_read_is_an_error_even_when_skipping(cub):
    for item in open_dataset("cub", cub).items:
        item.path.unlink()
    with pytest.raises(DataError, match="none of the 6 images"):
        open_dataset("cub", cub, skip_bad=True)


def test_the_fingerprint_changes_with_a_file_and_with_a_label(cub):
    before = open_dataset("cub", cub).fingerprint()
    path = open_dataset("cub", cub).item(0).path
    os.utime(path, ns=(1, 1))
    touched = open_dataset("cub", cub).fingerprint()
    edit_line(cub / "image_class_labels.txt", 1, "1 3")
    assert len({before, touched, open_dataset("cub", cub).fingerprint()}) == 3


def test_a_mask_of_another_size_is_refused(cub):
    data = open_dataset("cub", cub)
    Image.new("L", (10, 10), 255).save(data.item(0).mask)
    with pytest.raises(DataError, match=r"bird_0\.png has 10 x 10 pixels"):
        data[0]
    data.item(1).mask.write_text("no")
    with pytest.raises(DataError, match="cannot be read"):
        data[1]
    data.item(2).mask.unlink()
    assert data[2].mask is None


def test_keypoints_outside_the_image_are_left_out(cub):
    edit_line(cub / "parts" / "part_locs.txt", 1, "1 1 40.0 11.0 1")
    edit_line(cub / "parts" / "part_locs.txt", 2, "1 2 -1.0 11.0 1")
    assert set(open_dataset("cub", cub)[0].keypoints) == {"eye"}


# Options


def test_an_option_may_be_a_share(tmp_path):
    root = trees.folder(tmp_path)
    assert len(open_dataset("folder", root, **parse_options(["test_share=0.9"]))) > len(open_dataset("folder", root))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"testshare": 0.2}, "no option 'testshare'. Did you mean 'test_share'.* merge_sides, skip_bad"),
        ({"faults": 3}, "no option 'faults'"),
        ({"test_share": "much"}, "test_share of the data set folder is 'much'. Give a number"),
        ({"seed": 0.5}, "Give a whole number"),
        ({"seed": True}, "Give a whole number"),
        ({"skip_bad": 1}, "Give true or false"),
        ({"skip_bad": None}, "Give true or false"),
    ],
)
def test_wrong_options_are_named(tmp_path, options, complaint):
    with pytest.raises(SettingError, match=complaint):
        open_dataset("folder", trees.folder(tmp_path), **options)


def test_options_that_are_text(inat):
    with pytest.raises(SettingError, match=r"supercategory .* is 12\. Give text"):
        open_dataset("inaturalist", inat, supercategory=12)
    assert len(open_dataset("inaturalist", inat, supercategory=None).classes) == 3


def test_a_tenth_of_a_split_is_for_validation(tmp_path):
    root = trees.folder(tmp_path, per_class=30)
    parts = [open_dataset("folder", root, f"train:{part}", test_share=0.1) for part in ("rest", "validation")]
    names = [{data.image_name(i) for i in range(len(data))} for data in parts]
    whole = open_dataset("folder", root, "train", test_share=0.1)
    assert names[0] | names[1] == {item.name for item in whole.items}
    assert not names[0] & names[1]
    assert set(parts[1].labels()) == {0, 1}
    assert len(parts[1]) < len(whole) / 5
    assert parts[1].split == "train:validation"
    assert parts[1].fingerprint() == open_dataset("folder", root, "train:validation", test_share=0.1).fingerprint()
    with pytest.raises(SettingError, match=r"no part 'valid'\. Did you mean 'validation'"):
        open_dataset("folder", root, "train:valid")


# Dogs


@pytest.mark.parametrize("mat", [False, True])
def test_dogs_from_text_and_from_matlab_lists(tmp_path, mat):
    data = open_dataset("dogs", trees.dogs(tmp_path, mat=mat), "all")
    assert len(data) == 8
    # A classifier that was trained with one kind of lists is evaluated with the other.
    assert data.classes == ["Chihuahua", "golden retriever"]
    assert data.classes[data.label(0)] == data.item(0).name.partition("-")[2].partition("/")[0].replace("_", " ")
    assert len(open_dataset("dogs", tmp_path, "train")) == 4


def test_dogs_have_keypoints_and_masks_where_annotated(dogs):
    data = open_dataset("dogs", dogs, "all")
    by_name = {sample.name.rpartition("_")[2]: sample for sample in data}
    assert by_name["7.jpg"].keypoints is None
    assert by_name["0.jpg"].mask[:, 1:3].all()
    assert by_name["0.jpg"].mask.sum() == 60
    assert by_name["1.jpg"].mask is None
    assert by_name["0.jpg"].keypoints["front paw"] == [(3, 2), (9, 8)]
    assert "tail start" not in data.parts  # never visible
    assert "eye" not in data.parts
    assert "left ear base" in open_dataset("dogs", dogs, merge_sides=False).parts


def test_dogs_take_names_from_the_definitions(dogs):
    names = ["Left front leg: paw", "Right front leg: top", "Base of left ear", *(f"Name {i}" for i in range(21))]
    trees.write_lines(dogs / "keypoint_definitions.csv", ["Index,Name", *(f"{i},{n}" for i, n in enumerate(names))])
    assert {"front paw", "front leg top", "ear base", "name 4"} <= set(open_dataset("dogs", dogs).parts)
    trees.write_lines(dogs / "keypoint_definitions.csv", ["Index,Title", "0,x"])
    with pytest.raises(DataError, match="line 1: there is no column called Name"):
        open_dataset("dogs", dogs)


def test_dogs_with_bad_annotations(dogs):
    path = dogs / "StanfordExtra_v12.json"
    good = path.read_text()
    path.write_text(good.replace('"img_path"', '"path"', 1))
    with pytest.raises(DataError, match=r"\[0\]: there is no 'img_path'"):
        open_dataset("dogs", dogs)
    path.write_text(good[:-20])
    with pytest.raises(DataError, match="line 1: not JSON"):
        open_dataset("dogs", dogs)
    path.write_text(good)
    edit_line(dogs / "train_list.txt", 2, "dog.jpg")
    with pytest.raises(DataError, match=r"train_list\.txt line 2"):
        open_dataset("dogs", dogs)
    edit_line(dogs / "train_list.txt", 2, f"{trees.BREEDS[0]}/dog.jpg")
    (dogs / "test_list.mat").write_text("not a matlab file, not at all: " + "x" * 200)
    with pytest.raises(DataError, match=r"test_list\.mat is not a list"):
        open_dataset("dogs", dogs)
    (dogs / "test_list.mat").unlink()
    path.rename(dogs / "StanfordExtra_a.json")
    (dogs / "StanfordExtra_b.json").write_text("[]")
    with pytest.raises(DataError, match="several annotation files"):
        open_dataset("dogs", dogs)


def test_run_lengths_of_known_masks():
    # What pycocotools writes for squares on 25 x 25 pixels.
    for text, start in (("05d00000000d?", 0), ("R45d00000000b;", 5)):
        expected = np.zeros((25, 25), bool)
        expected[start : start + 5, start : start + 5] = True
        assert np.array_equal(RunLengths(25, 25, text).decode(), expected)
    assert uncompress("052203") == [0, 5, 2, 7, 2, 10]
    with pytest.raises(DataError, match="sum to 5"):
        RunLengths(2, 2, [1, 4]).decode()
    with pytest.raises(DataError, match="middle of a number"):
        uncompress("R")
    with pytest.raises(DataError, match="no character"):
        uncompress("é")


# iNaturalist


def test_inaturalist_keeps_a_supercategory(inat):
    every, birds = open_dataset("inaturalist", inat, "val"), open_dataset("inaturalist", inat, supercategory="birds")
    assert every.classes == ["Blackbird", "Great Tit", "Vulpes"]
    assert len(every) == 6
    assert birds.classes == ["Blackbird", "Great Tit"]
    assert birds.labels().tolist() == [0, 1, 0, 1]
    with pytest.raises(SettingError, match="Did you mean 'Mammals'"):
        open_dataset("inaturalist", inat, supercategory="mamals")


def test_inaturalist_reads_keypoints_that_can_be_seen(inat):
    data = open_dataset("inaturalist", inat, merge_sides=False)
    assert data.parts == ["beak", "left eye", "right eye"]
    assert data[0].keypoints == {"beak": [(5, 6)], "left eye": [(7.5, 8)]}  # the right one is hidden
    assert data[5].keypoints is None
    assert open_dataset("inaturalist", inat, "train_mini").parts == []
    given = open_dataset("inaturalist", inat, "train_mini", keypoints=inat / "val_keypoints.json")
    assert len(given.orphans) == 5
    with pytest.raises(DataError, match="there is no file"):
        open_dataset("inaturalist", inat, keypoints=inat / "none.json")


def test_inaturalist_names_the_bad_entry(inat):
    content = json.loads((inat / "val.json").read_text())
    content["annotations"][2]["category_id"] = 77
    (inat / "val.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"val\.json annotations\[2\]: there is no category 77"):
        open_dataset("inaturalist", inat)
    keypoints = json.loads((inat / "val_keypoints.json").read_text())
    keypoints["annotations"][1]["keypoints"].pop()
    content["annotations"][2]["category_id"] = 0
    (inat / "val.json").write_text(json.dumps(content))
    (inat / "val_keypoints.json").write_text(json.dumps(keypoints))
    with pytest.raises(DataError, match=r"annotations\[1\]: there are 8 numbers"):
        open_dataset("inaturalist", inat)
    for table, entry in (
        ("images", 5),
        ("images", {"id": [], "file_name": "x"}),
        ("annotations", {}),
        ("categories", []),
    ):
        broken = {**content, table: [*content[table], entry]}
        (inat / "val.json").write_text(json.dumps(broken))
        with pytest.raises(DataError, match=rf"{table}\[{len(content[table])}\]"):
            open_dataset("inaturalist", inat)
    (inat / "val.json").write_text("{}")
    with pytest.raises(DataError, match="has no 'images'"):
        open_dataset("inaturalist", inat)


# Folders


def test_a_folder_is_split_by_file_name(tmp_path):
    trees.folder(tmp_path)
    train, test, every = (open_dataset("folder", tmp_path, split) for split in ("train", "test", "all"))
    assert every.classes == ["Red Kite", "Barn Owl"]
    names = [{item.name for item in data.items} for data in (train, test, every)]
    assert names[0] | names[1] == names[2]
    assert not names[0] & names[1]
    assert len(names[2]) == 24
    assert any("deep/" in name for name in names[2])
    trees.write_image(tmp_path / "001.Red_Kite" / "new.png")
    again = {item.name for item in open_dataset("folder", tmp_path, "test").items}
    assert again - {"001.Red_Kite/new.png"} == names[1]
    other = {item.name for item in open_dataset("folder", tmp_path, "test", seed=1).items}
    assert other != names[1]
    assert len(open_dataset("folder", tmp_path, "test", test_share=0.9)) > len(test)
    with pytest.raises(SettingError, match="test_share"):
        open_dataset("folder", tmp_path, test_share=1.5)


def test_a_folder_with_split_folders(tmp_path):
    trees.folder(tmp_path, splits=("train", "val"), per_class=3)
    train, test = open_dataset("folder", tmp_path, "train"), open_dataset("folder", tmp_path, "test")
    assert {item.name.partition("/")[0] for item in train.items} == {"train"}
    assert {item.name.partition("/")[0] for item in test.items} == {"val"}
    assert len(open_dataset("folder", tmp_path, "all")) == 12
    trees.folder(tmp_path, splits=("test",), per_class=4)
    (tmp_path / "annotations").mkdir()
    assert [len(open_dataset("folder", tmp_path, split)) for split in ("train", "val", "test", "all")] == [6, 6, 8, 20]
    assert list(check_dataset("folder", tmp_path).splits) == ["train", "val", "test"]


# Pairs


def test_the_nearest_class_by_attributes():
    share = np.array([[0.0, 0.0], [1.0, 1.0], [0.1, 0.2], [0.8, 1.0]])
    assert nearest_by_attributes(Attributes(["a", "b"], share)) == {0: 2, 1: 3, 2: 0, 3: 1}
    assert nearest_by_attributes(Attributes(["a", "b"], share[:1])) == {}


# The real thing


def test_reference_birds(reference):
    train, test = (open_dataset("cub", reference / "data" / "cub60", split) for split in ("train", "test"))
    assert (len(train), len(test)) == (1797, 1708)
    assert len(train.classes) == 60
    assert len(train.parts) == 12
    assert train.attributes().share.shape == (60, 312)
    nearest = nearest_by_attributes(train.attributes())
    assert "Tern" in train.classes[nearest[train.classes.index("Common Tern")]]
    on_bird = 0
    for index in range(0, len(test), 40):
        sample = test[index]
        points = [(x, y) for points in sample.keypoints.values() for x, y in points]
        assert len(points) == len(test.item(index).keypoints)
        on_bird += np.mean([sample.mask[int(y), int(x)] for x, y in points]) > 0.7
    assert on_bird > 0.9 * len(range(0, len(test), 40))


def test_reference_dogs(reference):
    data = open_dataset("dogs", reference / "data" / "dogs6", "all")
    assert len(data) == 468
    assert len(data.classes) == 6
    assert len(data.parts) == 12
    for index in range(0, len(data), 20):
        assert sum(len(p) for p in data[index].keypoints.values()) == len(data.item(index).keypoints)
