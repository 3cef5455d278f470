"""Names of classes."""

import json

import pytest
from torch import nn

from partswap.errors import ClassIndexError, FileFormatError, PartswapError, SettingError, ShapeError
from partswap.models.names import class_names, find_class, imagenet_names, read_names
from partswap.models.open import describe, open_classifier
from partswap.models.zoo import load_model

BIRDS = ["Western Gull", "Herring Gull", "Tern"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.txt", "Western Gull\nHerring Gull\n\nTern\n"),
        ("classes.txt", "1 Western Gull\n2 Herring Gull\n3 Tern\n"),
        ("from0.txt", "0\tWestern Gull\n1\tHerring Gull\n2\tTern\n"),
        ("list.json", json.dumps(BIRDS)),
        ("map.json", json.dumps({"0": "Western Gull", "1": "Herring Gull", "2": "Tern"})),
        ("config.json", json.dumps({"id2label": {"0": "Western Gull", "1": "Herring Gull", "2": "Tern"}})),
    ],
)
def test_files_of_names(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_names(tmp_path / name) == BIRDS
    assert class_names(tmp_path / name, nn.Identity(), 3) == BIRDS
    with pytest.raises(ShapeError, match="3 class names for a model with 4"):
        class_names(tmp_path / name, nn.Identity(), 4)


def test_wrong_files_of_names(tmp_path):
    for name, content, says in [
        ("gone.txt", None, "there is no file"),
        ("empty.txt", b"", "no names"),
        ("bytes.txt", b"\xff\xfe\xfa", "not text"),
        ("cut.json", b'["a", ', "not JSON"),
        ("number.json", b"3", "no list"),
        ("holes.json", b'{"0": "a", "2": "b"}', "one by one"),
    ]:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(FileFormatError, match=says):
            read_names(tmp_path / name)
    with pytest.raises(FileFormatError, match="not a path"):
        read_names("names\0.txt")
    with pytest.raises(SettingError, match="class_names is a int"):
        class_names(3, nn.Identity(), 3)


def test_a_number_is_an_index_and_a_folder_never_is():
    assert find_class(1, BIRDS, 3) == find_class("1", BIRDS, 3) == find_class("Herring Gull", BIRDS, 3) == 1
    assert find_class("herring_gull", BIRDS, 3) == find_class("005.Herring_Gull", BIRDS, 3) == 1
    assert find_class("2", None, 3) == 2
    for wrong, says in [
        ("Hering Gull", "Did you mean 'Herring Gull'"),
        (3, "0 to 2"),
        ("3", "0 to 2"),
        (True, "0 to 2"),
    ]:
        with pytest.raises(ClassIndexError, match=says):
            find_class(wrong, BIRDS, 3)
    with pytest.raises(ClassIndexError, match="2 classes are called"):
        find_class("gull", ["gull", "Gull", "gull"], 3)
    with pytest.raises(PartswapError, match="names of the classes are unknown"):
        find_class("gull", None, 3)


def test_imagenet_has_names():
    assert imagenet_names()[0] == "tench"
    assert describe(load_model("resnet18"), "resnet18").classes[0] == "tench"
    assert class_names("imagenet", nn.Identity(), 1000) == imagenet_names()
    assert class_names(None, nn.Identity(), 1000) is None  # nobody says that these are ImageNet's
    assert open_classifier("aviary:vgg").classes[4] == "Olive Warbler"
