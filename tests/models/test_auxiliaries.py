"""Auxiliaries: published files in, grids out; wrong files are named."""

import pickle
from urllib.error import URLError

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from partswap import AUXILIARIES, Auxiliary, Explainer, _vision, aviary, load_auxiliary, load_model
from partswap.cut.layer_extractor import LayerExtractor
from partswap.errors import (
    FileFormatError,
    LayerError,
    MissingDependencyError,
    PartswapError,
    SettingError,
    UnknownNameError,
)
from partswap.inputs.preprocess import Preprocess
from partswap.models import shipped
from partswap.models.auxiliaries.base import TAU_TOKENS
from partswap.models.weights import read_weights, start_from
from published_files import network, published, write

# Of ImageNet's 1000 classes.
BIRDS = {*range(7, 25), *range(80, 101), *range(127, 147)}


@pytest.fixture(scope="module")
def canvases():
    return [aviary.draw(index, 7).image for index in (4, 30)]


def standardised(canvases):
    """ImageNet's standardisation, written out."""
    pixels = torch.from_numpy(np.stack([np.asarray(c) for c in canvases])).permute(0, 3, 1, 2) / 255
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (pixels - mean[:, None, None]) / std[:, None, None]


def before_pooling(model, x):
    x = model.maxpool(model.relu(model.bn1(model.conv1(x))))
    return model.layer4(model.layer3(model.layer2(model.layer1(x))))


def tokens(model, x, side):
    return model.forward_features(x)[:, 1:].transpose(1, 2).reshape(len(x), -1, side, side)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("deepcluster", False),
        ("swav", False),
        ("moco", False),
        ("dino_resnet50", False),
        ("dino_resnet50", True),
        ("imagenet_resnet50", False),
        ("imagenet_resnet50_v1", False),
    ],
)
def test_a_published_resnet_gives_what_the_network_gives_before_pooling(name, full, canvases, tmp_path):
    path, model = write(name, tmp_path, full=full)
    auxiliary = load_auxiliary(name, weights=path)
    grids = auxiliary.grids(canvases)
    with torch.no_grad():
        expected = before_pooling(model, standardised(canvases))
    assert grids.shape == (2, 2048, 7, 7)
    assert torch.isfinite(grids).all()
    assert grids.std() > 0.01
    torch.testing.assert_close(grids, expected, rtol=1e-3, atol=1e-3)
    assert auxiliary.name == name
    assert auxiliary.tau == 0.1
    assert not any(module.training for module in auxiliary.model.modules())


@pytest.mark.parametrize(("name", "full"), [("dino_vits16", False), ("dino_vits16", True)])
def test_dino_gives_its_patch_tokens_as_a_grid(name, full, canvases, tmp_path):
    path, model = write(name, tmp_path, full=full)
    auxiliary = load_auxiliary(name, weights=path)
    with torch.no_grad():
        expected = tokens(model, standardised(canvases), 14)
    torch.testing.assert_close(auxiliary.grids(canvases), expected, rtol=1e-3, atol=1e-3)
    assert auxiliary.tau == TAU_TOKENS
    assert not any(module.training for module in auxiliary.model.modules())


def test_dinov2_gives_its_patch_tokens_at_224_pixels(canvases, tmp_path):
    path, model = write("dinov2_vits14", tmp_path)
    assert torch.load(path, weights_only=True)["pos_embed"].shape == (1, 1370, 384)
    grids = load_auxiliary("dinov2_vits14", weights=path).grids(canvases)
    model.set_input_size((224, 224))  # timm's own way from 37 x 37 to 16 x 16 patches
    with torch.no_grad():
        expected = tokens(model.eval(), standardised(canvases), 16)
    assert grids.shape == (2, 384, 16, 16)
    torch.testing.assert_close(grids, expected, rtol=1e-3, atol=1e-3)


def test_dinov2_in_half_precision_loads_into_single(canvases, tmp_path):
    path, _ = write("dinov2_vits14", tmp_path)
    state = {key: value.half() for key, value in torch.load(path, weights_only=True).items()}
    save_file(state, tmp_path / "half.safetensors")
    grids = load_auxiliary("dinov2_vits14", weights=tmp_path / "half.safetensors").grids(canvases)
    assert grids.dtype == torch.float32
    whole = load_auxiliary("dinov2_vits14", weights=path).grids(canvases)
    torch.testing.assert_close(grids, whole, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("layer", ["layer4.0", "layer4.2.relu", "layer3"])
def test_another_layer_can_be_named(layer, canvases, tmp_path):
    path, model = write("moco", tmp_path)
    grids = load_auxiliary("moco", weights=path, layer=layer).grids(canvases)
    found = []
    model.get_submodule(layer).register_forward_hook(lambda _m, _i, out: found.append(out.clone()))
    with torch.no_grad():
        model(standardised(canvases))
    torch.testing.assert_close(grids, found[-1], rtol=1e-3, atol=1e-3)


def test_an_unknown_layer_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(LayerError, match=r"no layer 'trnk'.*'trunk'"):
        load_auxiliary("aviary", layer="trnk")
    with pytest.raises(LayerError, match="no grid"):
        LayerExtractor(shipped.load("vgg"), "classifier.1")


def test_nothing_after_the_layer_runs_and_a_failed_pass_leaves_no_trace(canvases):
    ran = []
    model = nn.Sequential(nn.Conv2d(3, 4, 32, 32), nn.ReLU(), nn.Flatten(), nn.Linear(196, 2))
    shared = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1))

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared, self.last = shared, model

        def forward(self, x):
            return self.last(self.shared(self.shared(x)))

    trunk, whole = LayerExtractor(Twice(), "shared"), LayerExtractor(Twice(), "last.1")
    trunk.features.body.shadow.last.register_forward_hook(lambda *_: ran.append(1))
    x = torch.randn(1, 3, 224, 224)
    twice = shared(shared(x))
    torch.testing.assert_close(trunk(x), twice)
    with pytest.raises(RuntimeError):
        trunk(torch.randn(1, 5, 224, 224))
    torch.testing.assert_close(trunk(x), twice)
    assert not ran
    torch.testing.assert_close(whole(x), model[:2](twice))


# -- wrong files ------------------------------------------------------------------------------------------------------


def test_a_file_of_another_architecture_is_named(tmp_path):
    torch.save(shipped.load("vgg").state_dict(), tmp_path / "other.pth.tar")
    with pytest.raises(FileFormatError, match=r"other\.pth\.tar does not fit ResNet .*conv1.weight.*features\.0"):
        load_auxiliary("swav", weights=tmp_path / "other.pth.tar")
    path, _ = write("swav", tmp_path)
    for name in ("dino_vits16", "dinov2_vits14"):
        with pytest.raises(FileFormatError, match=r"swav_800ep.*does not fit VisionTransformer .*missing: cls_token"):
            load_auxiliary(name, weights=path)
    vit, _ = write("dino_vits16", tmp_path)
    with pytest.raises(
        FileFormatError, match=r"deitsmall16.*patch_embed.proj.weight is \(384, 3, 16, 16\) in the file"
    ):
        load_auxiliary("dinov2_vits14", weights=vit)


def test_safetensors_of_a_vgg_are_named(tmp_path):
    save_file(shipped.load("vgg").state_dict(), tmp_path / "vgg.safetensors")
    with pytest.raises(FileFormatError, match=r"vgg\.safetensors does not fit"):
        load_auxiliary("deepcluster", weights=tmp_path / "vgg.safetensors")


@pytest.mark.parametrize("name", ["moco", "deepcluster"])  # torch's old format and its new one
def test_a_truncated_file_is_named(name, tmp_path):
    path, _ = write(name, tmp_path)
    whole = path.read_bytes()
    for kept in (100, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:kept])
        with pytest.raises(FileFormatError, match=path.name):
            load_auxiliary(name, weights=path)


def test_a_file_that_would_run_code_is_refused(tmp_path):
    path = tmp_path / "evil.pth.tar"
    path.write_bytes(pickle.dumps({"state_dict": print}, protocol=2))
    with pytest.raises(FileFormatError, match=r"evil\.pth\.tar"):
        load_auxiliary("moco", weights=path)


def test_a_missing_or_a_foreign_tensor_is_named(tmp_path):
    state = published("deepcluster", network("deepcluster"))
    lost = state.pop("module.layer3.2.conv1.weight")
    torch.save(state, tmp_path / "lacks.pth")
    with pytest.raises(FileFormatError, match=r"lacks\.pth.*missing: layer3\.2\.conv1\.weight"):
        load_auxiliary("deepcluster", weights=tmp_path / "lacks.pth")
    state |= {"module.layer3.2.conv1.weight": lost, "module.decoder.weight": lost}
    torch.save(state, tmp_path / "more.pth")
    with pytest.raises(FileFormatError, match=r"more\.pth.*not in the model: decoder\.weight"):
        load_auxiliary("deepcluster", weights=tmp_path / "more.pth")
    with pytest.raises(FileFormatError, match=r"no weights file .*gone\.pth"):
        load_auxiliary("deepcluster", weights=tmp_path / "gone.pth")


# -- official weights -------------------------------------------------------------------------------------------------

OFFICIAL = ["deepcluster", "swav", "moco", "dino_resnet50", "dino_vits16", "dinov2_vits14"]
OFFICIAL += ["imagenet_resnet50", "efficientnet_lite0"]


@pytest.mark.parametrize("name", OFFICIAL)
def test_without_a_network_the_url_is_named(name, monkeypatch, tmp_path):
    def offline(url, *_args, **_options):
        raise URLError("no route to host")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(PartswapError, match=r"https://\S+ could not be fetched .*no route.*local file"):
        load_auxiliary(name)


def test_official_weights_are_downloaded_once(monkeypatch, tmp_path, canvases):
    asked = []

    def download(url, path, hash_prefix=None, progress=False):
        asked.append((url, hash_prefix, progress))
        model = network("efficientnet_lite0")
        torch.save(model.state_dict(), path)

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    first, again = load_auxiliary("efficientnet_lite0"), load_auxiliary("efficientnet_lite0", weights="default")
    assert torch.equal(first.grids(canvases), again.grids(canvases))
    assert [(hash_prefix, progress) for _, hash_prefix, progress in asked] == [("0aa007d2", True)]


def test_urls_are_those_timm_and_torchvision_know():
    timm, models = _vision.timm(), _vision.torchvision().models
    known = {
        "dino_vits16": timm.get_pretrained_cfg("vit_small_patch16_224.dino").url,
        "dinov2_vits14": timm.get_pretrained_cfg("vit_small_patch14_dinov2.lvd142m").url,
        "efficientnet_lite0": timm.get_pretrained_cfg("tf_efficientnet_lite0").url,
        "imagenet_resnet50": models.ResNet50_Weights.IMAGENET1K_V1.url,
    }
    for name, url in known.items():
        assert __import__(AUXILIARIES.get(name).__module__, fromlist=["PUBLISHED"]).PUBLISHED.url == url


# -- names ------------------------------------------------------------------------------------------------------------


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no auxiliary called 'deepclustr'.*Did you mean 'deepcluster'"):
        load_auxiliary("deepclustr")
    with pytest.raises(UnknownNameError, match=r"called 'resnext05'.*Did you mean .*'resnet50'.*the folder"):
        load_auxiliary("resnext05")
    with pytest.raises(UnknownNameError, match="resnet18"):
        load_auxiliary("torchvision:resnet81")


def test_a_tag_of_weights_means_timm():
    assert type(load_model("resnet18.a1_in1k", classes=3)).__module__.startswith("timm.")
    assert type(load_model("resnet18", classes=3)).__module__.startswith("torchvision.")
    for name in ("resnet18.a1_in1kk", "timm:resnet18.a1_in1kk"):
        with pytest.raises(UnknownNameError, match=r"no weights called.*a1_in1kk"):
            load_model(name)
    with pytest.raises(UnknownNameError, match="no model called"):
        load_model("torchvision:resnet18.a1_in1k")


@pytest.mark.parametrize(
    ("name", "layer", "shape", "tau"),
    [
        ("torchvision:resnet18", None, (512, 7, 7), 0.1),
        ("resnet18", "layer3", (256, 14, 14), 0.1),
        ("timm:vit_tiny_patch16_224", None, (192, 14, 14), TAU_TOKENS),
        ("timm:tf_efficientnet_lite0", None, (1280, 7, 7), 0.1),
    ],
)
def test_any_model_of_the_zoo_can_be_an_auxiliary(name, layer, shape, tau, canvases, tmp_path):
    model = load_model(name)
    backbone = {k: v for k, v in model.state_dict().items() if not k.startswith(("fc.", "head.", "classifier."))}
    torch.save(backbone, tmp_path / "backbone.pth")
    auxiliary = load_auxiliary(name, weights=tmp_path / "backbone.pth", layer=layer)
    assert auxiliary.grids(canvases).shape == (2, *shape)
    assert auxiliary.tau == tau
    assert load_auxiliary(name, weights=tmp_path / "backbone.pth", tau=0.07).tau == 0.07


def test_a_file_must_be_given_where_there_is_no_official_one():
    with pytest.raises(SettingError, match="no official weights"):
        load_auxiliary("imagenet_resnet50_v1")
    with pytest.raises(SettingError, match="tau is 0"):
        load_auxiliary("aviary", tau=0)


def test_the_classifier_can_be_its_own_auxiliary(canvases):
    model = shipped.load("resnet")
    explainer = Explainer(model, "layer4.0", auxiliary="classifier", preprocess=shipped.PREPROCESS)
    encoded = explainer.encode(canvases)
    torch.testing.assert_close(encoded.aux, encoded.grids, rtol=1e-4, atol=1e-4)
    own = load_auxiliary("classifier", classifier=model, layer="layer3", preprocess=shipped.PREPROCESS)
    assert own.grids(canvases).shape == (2, 64, 14, 14)
    with pytest.raises(SettingError, match="needs the classifier"):
        load_auxiliary("classifier")
    with pytest.raises(SettingError, match="has the weights of the classifier"):
        load_auxiliary("classifier", classifier=model, weights="file.pth")


def test_the_aviary_takes_weights_and_a_layer(canvases, tmp_path):
    torch.save(shipped.load("auxiliary").state_dict(), tmp_path / "mine.pth")
    mine = load_auxiliary("aviary", weights=tmp_path / "mine.pth").grids(canvases)
    assert torch.equal(mine, load_auxiliary("aviary").grids(canvases))
    assert load_auxiliary("aviary", layer="trunk").grids(canvases).shape == (2, 96, 14, 14)


def test_inputs_are_what_the_model_gets(canvases):
    auxiliary = Auxiliary("mine", nn.Conv2d(3, 4, 16, 16), Preprocess(96))
    inputs = auxiliary.inputs(canvases)
    assert inputs.shape == (2, 3, 96, 96)
    with torch.no_grad():
        assert torch.equal(auxiliary.model(inputs), auxiliary.grids(canvases))


def test_augnet_without_its_package_says_how_to_get_it(monkeypatch):
    from importlib import metadata

    def gone(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", gone)
    with pytest.raises(MissingDependencyError, match=r"partswap\[augnet\]"):
        load_auxiliary("augnet")


def test_the_command_line_takes_weights_and_layer_of_the_auxiliary(canvases, tmp_path):
    from typer.testing import CliRunner

    from partswap.cli.main import app

    torch.save(shipped.load("auxiliary").state_dict(), tmp_path / "mine.pth")
    aviary.draw(4, 7).image.save(tmp_path / "query.png")
    for seed in range(3):
        aviary.draw(5, seed).image.save(tmp_path / f"b{seed}.png")
    donors = [str(tmp_path / f"b{seed}.png") for seed in range(3)]
    command = ["explain", str(tmp_path / "query.png"), *donors, "--model", "aviary:vgg", "--target", "5"]
    options = ["--auxiliary", "aviary", "--auxiliary-weights", str(tmp_path / "mine.pth")]
    done = CliRunner().invoke(app, [*command, *options, "--auxiliary-layer", "trunk"], catch_exceptions=False)
    assert done.exit_code == 0
    with pytest.raises(SettingError, match="no auxiliary"):
        CliRunner().invoke(app, [*command, "--auxiliary-layer", "trunk"], catch_exceptions=False)


# -- a start for training ---------------------------------------------------------------------------------------------


def test_a_start_loads_what_fits_and_names_what_stays_random(tmp_path):
    torch.manual_seed(0)
    trained = load_model("resnet18", classes=30)
    save_file({k: v.half() for k, v in trained.state_dict().items()}, tmp_path / "imagenet.safetensors")
    model = load_model("resnet18", classes=5)
    assert start_from(model, tmp_path / "imagenet.safetensors") == ["fc.weight", "fc.bias"]
    assert model.fc.weight.shape == (5, 512)
    assert model.conv1.weight.dtype == torch.float32
    torch.testing.assert_close(model.conv1.weight, trained.conv1.weight, rtol=1e-2, atol=1e-3)
    again = load_model("resnet18", classes=5, start=tmp_path / "imagenet.safetensors")
    assert torch.equal(again.layer4[1].conv2.weight, model.layer4[1].conv2.weight)


def test_features_alone_are_a_start_and_half_a_network_is_none(tmp_path):
    vgg = shipped.load("vgg")
    features = {k: v for k, v in vgg.state_dict().items() if k.startswith("features.")}
    torch.save(features, tmp_path / "features.pth")
    left = start_from(shipped.build("vgg"), tmp_path / "features.pth")
    assert left == [k for k in vgg.state_dict() if k.startswith("classifier.")]
    torch.save(dict(list(features.items())[10:]), tmp_path / "half.pth")
    with pytest.raises(FileFormatError, match=r"half\.pth is no start for SmallVGG .*missing: features\.0\.0\.weight"):
        start_from(shipped.build("vgg"), tmp_path / "half.pth")
    with pytest.raises(FileFormatError, match=r"features\.pth is no start for ResNet .*missing: conv1"):
        load_model("resnet18", start=tmp_path / "features.pth")
    with pytest.raises(SettingError, match="weights for a classifier that is ready"):
        load_model("resnet18", start=tmp_path / "features.pth", weights="default")


def test_resnet50_v1_has_its_strides_in_the_1x1_convolutions():
    model = load_model("resnet50_v1", classes=4)
    for stage in (model.layer2, model.layer3, model.layer4):
        assert (stage[0].conv1.stride, stage[0].conv2.stride) == ((2, 2), (1, 1))
    assert model(torch.randn(1, 3, 64, 64)).shape == (1, 4)
    with pytest.raises(SettingError, match="no official weights of 'partswap:resnet50_v1'"):
        load_model("partswap:resnet50_v1", weights="default")


# -- real weights -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "auxiliary", "file"),
    [
        ("resnet50_v1", "imagenet_resnet50_v1", "resnet50_v1_imagenet.safetensors"),
        ("timm:tf_efficientnet_lite0", "efficientnet_lite0", "tf_efficientnet_lite0_imagenet.safetensors"),
    ],
)
def test_real_weights_see_birds_in_birds(name, auxiliary, file, reference):
    path = reference / "weights" / file
    folders = sorted((reference / "data" / "cub60" / "images").iterdir())[::5]
    pictures = [Image.open(min(folder.iterdir())).convert("RGB") for folder in folders]
    loaded = load_auxiliary(auxiliary, weights=path)
    canvases = [Preprocess(224, 256).crop(picture) for picture in pictures]
    model = load_model(name, weights=path)
    x = loaded.inputs(canvases)
    with torch.no_grad():
        found = model(x).argmax(1).tolist()
    assert len(found) == 12
    assert sum(index in BIRDS for index in found) >= 10
    grid = loaded.grids(canvases[:2])
    assert grid.shape[2:] == (7, 7)
    if auxiliary == "imagenet_resnet50_v1":
        with torch.no_grad():
            torch.testing.assert_close(grid, before_pooling(model, x[:2]), rtol=1e-3, atol=1e-3)


def test_real_features_of_a_vgg_are_a_start(reference):
    path = reference / "weights" / "vgg16_features_imagenet.safetensors"
    model = load_model("vgg16", classes=10)
    assert {name.partition(".")[0] for name in start_from(model, path)} == {"classifier"}
    torch.testing.assert_close(model.features[0].weight, load_file(path)["features.0.weight"].float())
    assert set(read_weights(path)) == {name for name in model.state_dict() if name.startswith("features.")}
