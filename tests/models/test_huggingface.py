"""Models of Hugging Face: from a folder, with its image processor and names of classes."""

import json
import shutil

import pytest
import torch
from typer.testing import CliRunner

from partswap import Counterfactual, Explainer, Preprocess, _vision, aviary, load_model
from partswap.cli.main import app
from partswap.errors import PartswapError, SettingError
from partswap.models.huggingface import adapt
from partswap.models.open import open_classifier
from partswap.models.preprocessing import as_preprocess

NAMES = {0: "gull", 1: "tern", 2: "finch"}


@pytest.fixture(scope="module")
def transformers():
    _vision.torchvision()  # transformers imports it
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(transformers, tmp_path_factory):
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64, image_size=96, patch_size=16,
        id2label=NAMES, label2id={name: k for k, name in NAMES.items()},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("hf") / "vit"
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    size = {"height": 96, "width": 96}
    processor = transformers.ViTImageProcessor(size=size, image_mean=[0.5, 0.4, 0.6], image_std=[0.2, 0.3, 0.4])
    processor.save_pretrained(folder)
    return folder


def test_size_mean_std_and_names_are_those_of_the_folder(folder):
    classifier = open_classifier(f"hf:{folder}")
    assert classifier.classes == ["gull", "tern", "finch"]
    assert classifier.preprocess.shape == (96, 96)
    assert classifier.preprocess.mean == pytest.approx((0.5, 0.4, 0.6), abs=1e-5)
    assert classifier.preprocess.std == pytest.approx((0.2, 0.3, 0.4), abs=1e-5)
    assert open_classifier(str(folder)).classes == classifier.classes  # the folder says itself what it is


def test_images_are_what_the_processor_makes_of_them(folder, transformers):
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    model = transformers.AutoModelForImageClassification.from_pretrained(folder)
    image = aviary.draw(3, 1).image.resize((300, 180))
    inputs = processor(images=image, return_tensors="pt")
    with torch.no_grad():
        expected = model(**inputs).logits[0]
    for given in (f"hf:{folder}", load_model(f"hf:{folder}"), adapt(model), model):
        explainer = Explainer(given)
        assert torch.equal(explainer.preprocess(image)[0], inputs["pixel_values"][0])
        assert torch.allclose(explainer.encode([image]).logits[0], expected, atol=1e-5)
        assert explainer.class_names == ["gull", "tern", "finch"]
    assert as_preprocess(processor, model).key() == explainer.preprocess.key()


def test_the_model_itself_verifies(folder, transformers, tmp_path):
    for k in range(4):
        aviary.draw(k, 3).image.resize((300, 180)).save(tmp_path / f"{k}.png")
    paths = sorted(tmp_path.glob("*.png"))
    explainer = Explainer(f"hf:{folder}")
    second = int(explainer.encode(paths[:1]).logits[0].topk(2).indices[1])
    cf = explainer.explain(paths[0], paths[1:], second, keep_misclassified=True)
    read = Counterfactual.load(cf.save(tmp_path / "why.json"))
    for model in (transformers.AutoModelForImageClassification.from_pretrained(folder), load_model(f"hf:{folder}")):
        assert cf.verify(model)
        assert read.verify(model)  # its folder tells how images are prepared


@pytest.mark.parametrize("command", ["layers", "classes", "encode", "run"])
def test_a_folder_is_a_model_wherever_one_is_named(command, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for species, name in NAMES.items():
        place = tmp_path / "photos" / f"{species + 1}.{name}"  # in the order of the logits
        place.mkdir(parents=True)
        for k in range(6):
            aviary.draw(species, k).image.save(place / f"{k}.jpg")
    words = command.split()
    if command in ("layers", "classes"):
        words += ["hf:vit"]
    else:
        words += ["--data", "folder", "--path", str(tmp_path / "photos"), "--model", "hf:vit"]
        words += ["--cache", str(tmp_path / "cache")]
    if command == "run":
        words += ["--only", "all", "--method", "goyal", "--set", "max_edits=1", "--workers", "1"]
        words += ["--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.exception
    if command == "classes":
        assert "1  tern" in result.output
    if command == "layers":
        assert "6 x 6" in result.output


def test_a_folder_without_a_processor_is_told_how_images_are_prepared(folder, tmp_path, transformers):
    shutil.copytree(folder, tmp_path / "bare")
    (tmp_path / "bare" / "preprocessor_config.json").unlink()
    how = Preprocess(96, mean=(0.5, 0.4, 0.6), std=(0.2, 0.3, 0.4))
    image = aviary.draw(3, 1).image.resize((96, 96))
    expected = Explainer(f"hf:{folder}", auxiliary=None).encode([image]).logits
    for given in (f"hf:{tmp_path / 'bare'}", str(tmp_path / "bare"), load_model(f"hf:{tmp_path / 'bare'}")):
        explainer = Explainer(given, preprocess=how, auxiliary=None)
        assert explainer.class_names == list(NAMES.values())
        assert torch.allclose(explainer.encode([image]).logits, expected, atol=1e-4)
    image.save(tmp_path / "a.png")
    words = ["explain", tmp_path / "a.png", tmp_path / "a.png", "--auxiliary", "none", "--target", "gull"]
    for more, says in {
        (): "Save the image processor there too, processor.save_pretrained(folder), or say it: --preprocess.",
        ("--size", "9x"): "--size is '9x'.",
        ("--size", "96"): "none of the 1 distractors is predicted as the target gull",  # so far it went
    }.items():
        result = CliRunner().invoke(app, [*map(str, words), "--model", f"hf:{tmp_path / 'bare'}", *more])
        assert says in result.exception.in_flags()


def test_what_is_wrong_with_a_folder_is_said(folder, tmp_path, transformers):
    with pytest.raises(PartswapError, match="there is no folder"):
        load_model(f"hf:{tmp_path / 'gone'}")
    with pytest.raises(PartswapError, match=r"config.json is missing"):
        load_model(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(PartswapError, match="cannot be loaded as an image classifier"):
        load_model(f"hf:{tmp_path}")
    other = tmp_path / "unprepared"
    transformers.AutoModelForImageClassification.from_pretrained(folder).save_pretrained(other)
    for given in (f"hf:{other}", str(other), load_model(f"hf:{other}")):
        with pytest.raises(
            PartswapError, match=r"preprocessor_config.json, so how .* is unknown.*or say it: preprocess="
        ):
            Explainer(given)
    with pytest.raises(SettingError, match="brings its own weights"):
        load_model(f"hf:{folder}", weights="default")
