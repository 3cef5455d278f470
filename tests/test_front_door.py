"""Forty classifiers, from the path of a photograph to a verified counterfactual: in Python and on the command line.

Small networks with random weights. What is checked is that nothing is lost on the way: the cut equals the model, the
edits are what the model really says, and names of classes are on the picture.
"""

import json
import os

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from partswap import METHODS, Counterfactual, Explainer, Preprocess, _vision, aviary
from partswap.cli.main import app
from partswap.errors import PartswapError
from partswap.models.zoo import load_model

NAMES = ["gull", "tern", "finch", "warbler", "thrush"]
TORCHVISION = [
    "alexnet", "vgg11", "resnet18", "squeezenet1_1", "densenet121", "mobilenet_v2", "mobilenet_v3_small",
    "shufflenet_v2_x0_5", "mnasnet0_5", "efficientnet_b0", "regnet_x_400mf", "convnext_tiny", "googlenet",
]  # fmt: skip
#: Name, and options that keep it small.
TIMM = {
    "resnet10t": {}, "resnetv2_50": {"layers": (1, 1, 1, 1)}, "vit_tiny_patch16_224": {"img_size": 64, "depth": 3},
    "deit_tiny_distilled_patch16_224": {"img_size": 64, "depth": 3},
    "vit_small_patch14_reg4_dinov2": {"img_size": 56, "depth": 3, "embed_dim": 96, "num_heads": 3},
    "swin_tiny_patch4_window7_224": {"img_size": 64, "window_size": 2, "embed_dim": 24},
    "convnext_atto": {}, "mobilenetv3_small_050": {}, "efficientnet_lite0": {}, "levit_128s": {},
    "poolformer_s12": {}, "mixer_s32_224": {"img_size": 64}, "xcit_nano_12_p16_224": {"depth": 3, "img_size": 64},
    "repvgg_a0": {}, "ghostnet_050": {}, "edgenext_xx_small": {}, "mobilevit_xxs": {}, "hardcorenas_a": {},
    "tf_efficientnetv2_b0": {}, "rexnet_100": {},
}  # fmt: skip
HUGGING_FACE = ["ViT", "ResNet", "ConvNext", "MobileNetV2"]


class Plain(nn.Module):
    """A user's own network, for small oblong images."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 5, 4, 2), nn.BatchNorm2d(12), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(12, 16, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(16, len(NAMES))

    def forward(self, x):
        return self.fc(torch.relu(self.body(self.stem(x))).mean((2, 3)))


def spread(model: nn.Module) -> nn.Module:
    """Return the model with logits that differ among images, as those of a trained one do."""
    last = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)][-1]
    with torch.no_grad():
        last.weight.mul_(30)
    return model.eval()


def own(kind: str) -> nn.Module:
    torch.manual_seed(0)
    model = Plain()
    model.class_names = NAMES
    model.preprocess = Preprocess((32, 48), mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    if kind == "softmax":
        wrapped = nn.Sequential(spread(model), nn.Softmax(1))
        wrapped.class_names, wrapped.preprocess = NAMES, model.preprocess
        return wrapped
    if kind == "half":
        return spread(model).to(torch.bfloat16)
    return spread(model)


FILE = """
import sys
sys.path.insert(0, {tests!r})
from test_front_door import small


def build():
    return small({kind!r}, {name!r})
"""


def small(kind: str, name: str) -> nn.Module:
    """Return one of the forty, with names of its classes where nothing else says them."""
    torch.manual_seed(0)
    if kind == "own":
        return own(name)
    if kind == "timm":
        model = _vision.timm().create_model(name, num_classes=len(NAMES), **TIMM[name])
        size = TIMM[name].get("img_size", 224)
        size = 64 if size == 224 and name != "levit_128s" else size
        config = {**model.pretrained_cfg, "input_size": (3, size, size)}
    else:
        model = load_model(f"torchvision:{name}", classes=len(NAMES))
        config = {"input_size": (3, 96, 96), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    model.class_names, model.preprocess = NAMES, config
    return spread(model)


def saved_hugging_face(name: str, folder) -> None:
    _vision.torchvision()
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    labels = {"id2label": dict(enumerate(NAMES)), "label2id": {n: k for k, n in enumerate(NAMES)}}
    options = {
        "ViT": {
            "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64,
            "image_size": 64, "patch_size": 16,
        },
        "ResNet": {"embedding_size": 16, "hidden_sizes": [16, 24, 32, 48], "depths": [1] * 4, "layer_type": "basic"},
        "ConvNext": {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 2, 1]},
        "MobileNetV2": {"depth_multiplier": 0.35, "image_size": 64},
    }[name]  # fmt: skip
    model = getattr(transformers, f"{name}ForImageClassification")(
        getattr(transformers, f"{name}Config")(**options, **labels)
    )
    spread(model).save_pretrained(folder)
    kinds = {"ViT": "ViT", "ResNet": "ConvNext", "ConvNext": "ConvNext", "MobileNetV2": "MobileNetV2"}
    size = {"ConvNext": {"shortest_edge": 64}, "ViT": {"height": 64, "width": 64}}.get(
        kinds[name], {"shortest_edge": 72}
    )
    crop = {"crop_size": {"height": 64, "width": 64}} if kinds[name] == "MobileNetV2" else {}
    getattr(transformers, f"{kinds[name]}ImageProcessor")(size=size, **crop).save_pretrained(folder)


ALL = [
    *(("torchvision", name) for name in TORCHVISION),
    *(("timm", name) for name in TIMM),
    *(("hf", name) for name in HUGGING_FACE),
    *(("own", kind) for kind in ("plain", "softmax", "half")),
]


#: One of each way to open a classifier goes through the command line every day, the others with `make soak`.
ON_THE_COMMAND_LINE = [("torchvision", "resnet18"), ("timm", "resnet10t"), ("hf", "ResNet"), ("own", "plain")]


def test_there_are_forty():
    assert len(ALL) >= 40
    assert {kind for kind, _ in ON_THE_COMMAND_LINE} == {kind for kind, _ in ALL}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    (folder / "others").mkdir()
    for k in range(8):
        image = aviary.draw(k, k).image.resize((200, 160) if k % 2 else (170, 220))
        image.save(folder / ("photo.jpg" if k == 0 else f"others/{k}.jpg"))
    return folder


def saved_classifier(kind: str, name: str, folder) -> str:
    """Write one of the forty into a folder; return how a user names it."""
    if kind == "hf":
        saved_hugging_face(name, folder / "model")
        return f"hf:{folder / 'model'}"
    (folder / "mymodel.py").write_text(FILE.format(tests=os.path.dirname(__file__), kind=kind, name=name))
    return f"{folder / 'mymodel.py'}:build"


def explained(spec: str, photographs) -> tuple[Explainer, Counterfactual, str, bool]:
    """Return an explainer, a verified counterfactual, its target, and whether misclassified distractors were taken."""
    explainer = Explainer(spec, method=METHODS.get("partswap")(beam=1, max_edits=3))
    assert explainer.class_names == NAMES
    query, others = photographs / "photo.jpg", photographs / "others"
    logits = explainer.encode([query, others]).logits
    others_predicted = [k for k in logits.argmax(1).tolist() if k != int(logits[0].argmax())]
    # Of a random network all images may be of one class: then towards its second guess, from all there is.
    keep = not others_predicted
    target = (
        NAMES[max(set(others_predicted), key=others_predicted.count)]
        if others_predicted
        else NAMES[int(logits[0].topk(2).indices[1])]
    )
    cf = explainer.explain(query, others, target, keep_misclassified=keep)
    assert cf.class_name(cf.target) == target
    assert explainer.verify(cf), explainer.verify(cf)
    return explainer, cf, target, keep


def variants(entries):
    return [pytest.param(kind, name, id=f"{kind}-{name}") for kind, name in entries]


@pytest.mark.filterwarnings("ignore::partswap.explainer.notes.PartswapWarning")
@pytest.mark.parametrize(("kind", "name"), variants(entry for entry in ALL if entry not in ON_THE_COMMAND_LINE))
def test_from_a_path_to_a_verified_counterfactual(kind, name, photographs, tmp_path):
    explainer, cf, _, _ = explained(saved_classifier(kind, name, tmp_path), photographs)
    cf.save(tmp_path / "why.json")
    again = Counterfactual.load(tmp_path / "why.json")
    assert again.edits == cf.edits
    if cf.edits:
        assert explainer.verify(again)


def check_the_command_line(kind, name, photographs, folder):
    spec = saved_classifier(kind, name, folder)
    explainer, cf, target, keep = explained(spec, photographs)
    words = ["explain", photographs / "photo.jpg", photographs / "others", "--model", spec, "--target", target]
    words += ["--save", folder / "why.json", "--plot", folder / "why.svg"]
    words += ["--set", "beam=1", "--max-edits", 3]  # of random weights, more edits say no more
    words += ["--keep-misclassified"] if keep else []
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    again = Counterfactual.load(folder / "why.json")
    assert again.edits == cf.edits
    assert f"{cf.class_name(cf.query_class)} -> {target}" in result.output
    if cf.edits:
        assert explainer.verify(again)
    source = json.loads((folder / "why.json").read_text())["source"]
    assert source["class_names"][str(cf.target)] == target
    assert (folder / "why.svg").stat().st_size > 5_000


@pytest.mark.filterwarnings("ignore::partswap.explainer.notes.PartswapWarning")
@pytest.mark.parametrize(("kind", "name"), variants(ON_THE_COMMAND_LINE))
def test_the_command_line_says_the_same_as_python(kind, name, photographs, tmp_path):
    check_the_command_line(kind, name, photographs, tmp_path)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::partswap.explainer.notes.PartswapWarning")
@pytest.mark.parametrize(("kind", "name"), variants(entry for entry in ALL if entry not in ON_THE_COMMAND_LINE))
def test_the_command_line_says_the_same_as_python_of_all(kind, name, photographs, tmp_path):
    check_the_command_line(kind, name, photographs, tmp_path)


def test_the_command_line_says_what_is_wrong_with_a_model(tmp_path):
    with pytest.raises(PartswapError, match=r"there is no file .*gone.py"):
        CliRunner().invoke(
            app, ["explain", __file__, __file__, "--model", f"{tmp_path}/gone.py:build"], catch_exceptions=False
        )
