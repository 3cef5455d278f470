"""Names of classes."""

import json

import pytest
import torch
from torch import nn

from partswap.errors import ClassIndexError, FileFormatError, PartswapError, SettingError, ShapeError
from partswap.explainer.target import choose_target
from partswap.models.names import class_names, find_class, imagenet_names, is_ambiguous, read_names
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
        ("shuffled.txt", "2 Tern\n0 Western Gull\n1 Herring Gull\n"),
        ("colons.csv", "0: Western Gull\n1, Herring Gull\n2;Tern\n"),
        ("from1.json", json.dumps({"1": "Western Gull", "2": "Herring Gull", "3": "Tern"})),
        ("class_index.json", json.dumps({str(k): [f"n0{k}", name] for k, name in enumerate(BIRDS)})),
        ("class_to_idx.json", json.dumps({"Tern": 2, "Herring Gull": 1, "Western Gull": 0})),
        ("label2id.json", json.dumps({"label2id": {"Tern": 2, "Herring Gull": 1, "Western Gull": 0}})),
        ("classes.json", json.dumps({"classes": BIRDS})),
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
        ("holes.json", b'{"0": "a", "2": "b"}', "one by one: 1 is missing"),
        ("synsets.json", b'{"n01440764": "tench"}', "maps 'n01440764' to 'tench'"),
        ("twice.json", b'{"a": 0, "b": 0}', "names the class 0 twice"),
        ("holes.txt", b"0 cat\n2 dog\n", "1 is missing"),
        ("twice.txt", b"0 cat\n0 dog\n", "names the class 0 twice"),
        ("nameless.txt", b"0 cat\n1\n", "no name for the class 1"),
        ("spots.txt", b"7 spot ladybird\n10 spot ladybird\n", "a JSON list of names"),
        ("sorted.txt", "\n".join(sorted(f"{k} bird {k}" for k in range(12))).encode(), "0, 1, 10, .*sort -n"),
    ]:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(FileFormatError, match=says):
            read_names(tmp_path / name)
    with pytest.raises(FileFormatError, match="not a path"):
        read_names("names\0.txt")
    with pytest.raises(SettingError, match="class_names is a int"):
        class_names(3, nn.Identity(), 3)


def test_numbers_alone_and_some_numbers_are_names(tmp_path):
    for names in (["0", "1", "10", "2"], ["Robin", "7 spot ladybird"], ["005.Tern", "006.Gull"]):
        (tmp_path / "names.txt").write_text("\n".join(names))
        assert read_names(tmp_path / "names.txt") == names
    assert class_names({"Tern": 1, "Gull": 0}, nn.Identity(), 2) == ["Gull", "Tern"]  # torchvision's class_to_idx
    # The classes of an image folder whose folders are numbers: sorted as text, and the numbers are names.
    digits = {name: k for k, name in enumerate(sorted(str(k) for k in range(11)))}
    assert class_names(digits, nn.Identity(), 11)[2] == "10"


def test_classes_called_by_numbers_have_one_rule():
    names = ["0", "1", "10", "2"]
    assert [find_class(text, names, 4) for text in ("10", "2", "3", "class 2")] == [2, 3, 3, 2]
    assert find_class(2, names, 4) == 2
    assert [is_ambiguous(target, names) for target in ("2", 2, "10", 0, "3", "class 2", "x")] == [
        True,
        True,
        *[False] * 5,
    ]
    logits = torch.tensor([1.0, 0, 0, 0])
    for target, index in (("2", 3), (2, 2)):
        aim, why = choose_target(logits, target, None, None, names)
        assert (aim, why.kind) == (index, "ambiguous")
    assert choose_target(logits, "10", None, None, names)[1].kind == "given"


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
