"""How a model's images are prepared, as flags and files say it."""

import json

import numpy as np
import pytest
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from command_line import COMMANDS
from partswap import Preprocess, _vision, open_dataset
from partswap.cli.main import app
from partswap.cli.options import console, say_skipped
from partswap.errors import FileFormatError, SettingError
from partswap.models.preprocess_options import PreprocessOptions
from partswap.models.preprocessing import preprocess_for
from partswap.models.zoo import published_preprocess
from partswap.runs.config import RunConfig

USUAL = Preprocess(224, 256)
HALVES, ZEROS, ONES = (0.5,) * 3, (0.0,) * 3, (1.0,) * 3

MODEL = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 4, stride=4), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 3)
    ).eval()

def prepare(image):
    return torch.full((1, 28, 28), image.convert("L").getpixel((0, 0)) / 255.0)
"""


@pytest.mark.parametrize(
    ("said", "prepared"),
    [
        ({}, USUAL),
        ({"size": 32}, Preprocess(32)),
        ({"size": "192x256"}, Preprocess((192, 256))),
        ({"size": "32", "resize": 40, "mean": 0.5, "std": "0.5"}, Preprocess(32, 40, HALVES, HALVES)),
        ({"preprocess": "0-1"}, Preprocess(224, 256, ZEROS, ONES)),
        ({"preprocess": "0-1", "size": "96"}, Preprocess(96, None, ZEROS, ONES)),
        ({"preprocess": "imagenet"}, USUAL),
        ({"mean": "0.1, 0.2, 0.3", "std": 1.0}, Preprocess(224, 256, (0.1, 0.2, 0.3), ONES)),
    ],
)
def test_what_is_said_is_on_top_of_what_the_model_says(said, prepared):
    found = PreprocessOptions(**said).of(nn.Conv2d(3, 4, 3))
    assert found == prepared
    assert bool(found.assumed) == (not {"preprocess", "mean"} & set(said))


def test_files_say_it(tmp_path):
    (tmp_path / "own.json").write_text(json.dumps({"size": 96, "mean": [0, 0, 0], "std": [1, 1, 1]}))
    (tmp_path / "timm.json").write_text(json.dumps({"input_size": [3, 64, 64], "mean": ZEROS, "std": ONES}))
    (tmp_path / "model.json").write_text(json.dumps({"kind": "classifier", "preprocess": Preprocess(48).record()}))
    (tmp_path / "own.py").write_text(MODEL)
    (tmp_path / "bad.json").write_text("{")
    model = nn.Conv2d(3, 4, 3)
    for name, expected in {
        "own.json": Preprocess(96, None, ZEROS, ONES),
        "timm.json": Preprocess(64, 64, ZEROS, ONES),
        "model.json": Preprocess(48),
    }.items():
        assert PreprocessOptions(str(tmp_path / name)).of(model) == expected
    function = PreprocessOptions(f"{tmp_path}/own.py:prepare")
    assert function.of(nn.Conv2d(1, 4, 3)).channels == 1
    for wrong, says in {
        PreprocessOptions("nowhere.json"): "imagenet, 0-1, a JSON file",
        PreprocessOptions(size="9x"): "--size is '9x'",
        PreprocessOptions(function.preprocess, size=9): "prepared by prepare, whose size",
    }.items():
        with pytest.raises(SettingError, match=says):
            wrong.of(nn.Conv2d(1, 4, 3))
    with pytest.raises(SettingError, match="--mean is 'a,b'"):  # before there is a model
        PreprocessOptions(mean="a,b")
    with pytest.raises(FileFormatError, match="is no JSON"):
        PreprocessOptions(str(tmp_path / "bad.json")).of(model)


def test_every_command_that_takes_a_model_takes_how_its_images_are_prepared():
    wanted = {"--preprocess", "--size", "--resize", "--mean", "--std"}
    takers = []
    for words, command in COMMANDS.items():
        if words == ("demo",):  # its networks are those that ship
            continue
        flags = {option for parameter in command.params for option in parameter.opts}
        if "--model" in flags or any(parameter.name == "model" for parameter in command.params):
            takers.append(words)
            assert wanted <= flags, words
    assert {("explain",), ("layers",), ("classes",), ("run",), ("explore",), ("train", "words")} <= set(takers)


def test_a_run_records_what_was_said_and_nothing_else(tmp_path):
    bare = RunConfig(data="aviary", model="aviary:vgg")
    assert bare.stated is None
    assert "size" not in bare.record()
    said = bare.with_(size="32", preprocess="0-1")
    assert said.stated == PreprocessOptions("0-1", "32")
    assert RunConfig.from_record(said.record()) == said
    assert {"size", "preprocess"} <= set(said.identity_fields())


def test_official_weights_of_torchvision_say_how_images_are_prepared():
    models = _vision.torchvision().models
    found = published_preprocess(models.get_model_weights("resnet50").DEFAULT)
    assert found == Preprocess(224, 232)
    assert published_preprocess(models.get_model_weights("inception_v3").DEFAULT).size == 299
    model = nn.Conv2d(3, 4, 3)
    model.preprocess = found
    assert preprocess_for(model).assumed == ""


@pytest.fixture
def grey(tmp_path):
    """Return a folder with a network of grey images of 28 pixels, and some."""
    (tmp_path / "own.py").write_text(MODEL)
    (tmp_path / "donors").mkdir()
    rng = np.random.default_rng(0)
    for k in range(12):
        pixels = (rng.random((28, 28)) * rng.integers(30, 255)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / ("query.png" if k == 0 else f"donors/{k}.png"))
    (tmp_path / "donors" / "scan.dcm").write_bytes(b"x")
    return tmp_path


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return " ".join((result.output + getattr(result.exception, "in_flags", str)()).split())


def test_a_grey_network_of_another_size_is_explained_on_the_command_line(grey):
    model = f"{grey}/own.py:build"
    assert "It takes images of 28 x 28, 1 channel: say --size 28, and its mean and std" in run("layers", model)
    assert "probe" not in run("explain", grey / "query.png", grey / "donors", "--model", model)
    shown = run("layers", model, "--size", 28)
    assert "7x7" in shown.replace(" ", "")
    assert shown.count("preprocessing is assumed, pixels of 0 to 1: 28 x 28, mean 0, std 1.") == 1
    words = ("explain", grey / "query.png", grey / "donors", "--model", model, "--size", 28, "--auxiliary", "none")
    shown = run(*words, "--layer", "1", "--keep-misclassified", "--target", 1)
    assert shown.count("note: preprocessing is assumed") == 1
    assert "1 file is not read as images: 1 .dcm" in shown
    assert "assumed" not in run(*words, "--mean", "0.5", "--std", "0.5", "--target", 1)


def test_commands_say_once_which_files_of_a_data_set_are_no_images(grey):
    for split in ("train", "test"):
        (grey / "birds" / split / "gull").mkdir(parents=True)
        (grey / "birds" / split / "gull" / "a.png").write_bytes((grey / "query.png").read_bytes())
    (grey / "birds" / "train" / "gull" / "b.heic").write_bytes(b"x")
    sets = [open_dataset("folder", grey / "birds", split) for split in ("train", "test")]
    with console.capture() as captured:
        say_skipped({}, *sets)
    assert captured.get().count("1 file is not read as images: 1 .heic") == 1
