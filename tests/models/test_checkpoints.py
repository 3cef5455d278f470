"""Trained networks in folders: the files, and folders of earlier versions."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from partswap.errors import FileFormatError
from partswap.inputs.preprocess import Preprocess
from partswap.models.checkpoints import Classifier, load_classifier, load_trained, save_trained
from partswap.models.parts import Detector, PartsDetector, load_detector
from partswap.models.weights import read_weights
from partswap.models.zoo import load_model

PREPROCESS = Preprocess(96, 112, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
TOLD = {"size": 96, "resize": 112, "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}  # by the first versions
RECORD = {"accuracy": 0.5}


def classifier():
    torch.manual_seed(0)
    return Classifier(
        load_model("timm:test_resnet", classes=3), "timm:test_resnet", ["a", "b", "c"], PREPROCESS, record=RECORD
    )


def detector():
    torch.manual_seed(0)
    model = PartsDetector(load_model("timm:test_resnet"), "layer2", 2, size=96).eval()
    return Detector(model, "timm:test_resnet", "layer2", ["beak", "tail"], PREPROCESS, record=RECORD)


KINDS = {
    Classifier: (classifier, {"kind": "classifier", "classes": ["a", "b", "c"]}),
    Detector: (detector, {"kind": "parts detector", "layer": "layer2", "parts": ["beak", "tail"]}),
}


def says(made):
    images = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return made.model(images)


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_network_is_read_back(kind, tmp_path):
    make, told = KINDS[kind]
    made = make()
    assert save_trained(made, tmp_path / "a") == tmp_path / "a"
    about = json.loads((tmp_path / "a" / "model.json").read_text())
    assert about.pop("partswap")
    preprocess = {**TOLD, "fit": "crop", "interpolation": "bilinear"}
    assert about == {"architecture": "timm:test_resnet", "preprocess": preprocess, "record": RECORD, **told}
    assert set(load_file(tmp_path / "a" / "model.safetensors")) == set(made.model.state_dict())
    read = load_trained(kind, tmp_path / "a")
    assert torch.equal(says(read), says(made))
    assert not any(module.training for module in read.model.modules())
    assert {**vars(read), "model": None} == {**vars(made), "model": None}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_an_earlier_version_is_read(kind, tmp_path):
    make, told = KINDS[kind]
    made = make()
    save_file({k: v.contiguous() for k, v in made.model.state_dict().items()}, tmp_path / "model.safetensors")
    about = {"partswap": "0.0.1", "architecture": "timm:test_resnet", "preprocess": TOLD, "record": RECORD, **told}
    (tmp_path / "model.json").write_text(json.dumps(about))
    read = (load_classifier if kind is Classifier else load_detector)(tmp_path)
    assert torch.equal(says(read), says(made))
    assert read.preprocess == PREPROCESS


def test_weights_of_another_network_are_refused(tmp_path):
    save_trained(detector(), tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**about, "parts": ["beak"]}))
    with pytest.raises(FileFormatError, match=r"does not fit PartsDetector .*train it again"):
        load_detector(tmp_path)
    with pytest.raises(FileFormatError, match="is not about a classifier"):
        load_classifier(tmp_path)


def test_what_was_trained_can_be_read_by_whom_the_umask_says(tmp_path):
    for umask, mode in ((0o022, 0o644), (0o027, 0o640)):
        before = os.umask(umask)
        try:
            folder = save_trained(classifier(), tmp_path / str(umask))
        finally:
            os.umask(before)
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
        assert modes == {"model.json": mode, "model.safetensors": mode}


def test_a_file_that_holds_no_weights_is_said_to_be_none(tmp_path):
    (tmp_path / "names.txt").write_text("gull\ntern\n")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "pickled.pt")
    for name in ("names.txt", "pickled.pt"):
        with pytest.raises(
            FileFormatError, match=f"{name} cannot be read as weights .*Save a plain state dict"
        ) as raised:
            read_weights(tmp_path / name)
        # torch's own advice is to load it in an unsafe way.
        assert "weights_only" not in str(raised.value)
