"""What names a model, by its parts."""

import pytest

from partswap.models.model_name import ModelName


@pytest.mark.parametrize(
    ("text", "kind", "place", "name"),
    [
        ("aviary:vgg", "shipped", "aviary", "vgg"),
        ("hf:owner/name", "huggingface", "owner/name", ""),
        ("hf:", "huggingface", "", ""),
        ("nets/vgg", "folder", "nets/vgg", ""),
        ("mine.py:build", "function", "mine.py", "build"),
        ("/a:b/mine.py:build", "function", "/a:b/mine.py", "build"),
        ("mine:build", "function", "mine", "build"),
        ("package.module:build", "function", "package.module", "build"),
        ("timm:resnet10t", "architecture", "timm", "resnet10t"),
        ("timm:resnet50.a1_in1k", "architecture", "timm", "resnet50.a1_in1k"),
        ("resnet50.a1_in1k", "architecture", "", "resnet50.a1_in1k"),
        ("resnet50", "architecture", "", "resnet50"),
        ("mine.py", "architecture", "", "mine.py"),
        ("no-module:build", "architecture", "no-module", "build"),
    ],
)
def test_a_name_is_read(text, kind, place, name, tmp_path, monkeypatch):
    (tmp_path / "nets/vgg").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert ModelName.parse(text) == ModelName(text, kind, place, name)


def test_a_folder_is_one_only_where_folders_are_meant(tmp_path, monkeypatch):
    (tmp_path / "resnet50").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ModelName.parse("resnet50").kind == "folder"
    assert ModelName.parse("resnet50", folders=False).kind == "architecture"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf:nets", "hf:/there/nets"),
        ("mine.py:build", "/there/mine.py:build"),
        ("mine:build", "mine:build"),
        ("aviary:vgg", "aviary:vgg"),
        ("resnet50", "resnet50"),
    ],
)
def test_files_and_folders_in_a_name_are_located(text, expected):
    assert ModelName.parse(text).located(lambda place: f"/there/{place}") == expected
