"""What is no image classifier is told what it is and what to do; features are no classes."""

import pytest
import torch
from torch import nn

from partswap import Explainer, Preprocess, _vision, cut_network
from partswap.errors import CutError, PartswapError, ShapeError
from partswap.explainer.notes import PartswapWarning
from partswap.models.outputs import cut_as_logits

PROBE = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def body(*after: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 12, 8, 8), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *after
    )


class Returning(nn.Module):
    """A classifier of 5 classes that returns what a function makes of its image, features and logits."""

    def __init__(self, change):
        super().__init__()
        self.body, self.fc, self.change = body(), nn.Linear(12, 5), change

    def forward(self, x):
        features = self.body(x)
        return self.change(x, features, self.fc(features))


def boxes(x, _features, _logits):
    return [{"boxes": torch.zeros(3, 4), "labels": torch.ones(3), "scores": torch.ones(3)} for _ in x]


def torchvision(name, **options):
    return lambda: _vision.torchvision().models.get_model(name, weights=None, **options)


def beheaded(name, place):
    def make():
        model = torchvision(name)()
        owner, _, last = place.rpartition(".")
        setattr(model.get_submodule(owner), last, nn.Identity())
        return model

    return make


def timm(name, **options):
    return lambda: _vision.timm().create_model(name, **options)


def transformer(kind, config, **options):
    def make():
        transformers = pytest.importorskip("transformers")
        small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        return getattr(transformers, kind)(getattr(transformers, config)(**(small | options)))

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        # What belongs to it has as many columns as the last layer tells classes apart, and a row per image.
        (lambda: Returning(lambda _x, f, y: (f, y)), r"returns a tuple, not only.*return self\.model\(images\)\[1\]"),
        (lambda: Returning(lambda x, f, y: {"x": x, "f": f, "y": y}), r"returns a dict.*self\.model\(images\)\['y'\]"),
        (lambda: Returning(lambda _x, f, _y: (f, 1)), r"of which the last linear layer has 5 \(0: \(2, 12\), 1: a int"),
        (lambda: Returning(lambda _x, _f, y: (y.T, "z")), r"nothing in it looks like them.*0: \(5, 2\), 1: a str"),
        (lambda: Returning(boxes), r"Returning detects objects \(it returns a list\), and.*surest box of each class"),
        (lambda: Returning(lambda x, _f, _y: {"out": x}), r"segments images.*self\.model\(images\)\['out'\]\.mean"),
        (lambda: Returning(lambda x, _f, _y: x), r"segments images.*self\.model\(images\)\.mean"),
        (torchvision("lraspp_mobilenet_v3_large", weights_backbone=None), "LRASPP segments images"),
        (torchvision("ssdlite320_mobilenet_v3_large", weights_backbone=None), "SSD detects objects"),
        (transformer("BertForSequenceClassification", "BertConfig"), "reads text.*Give a model of images"),
        (transformer("ViTModel", "ViTConfig", image_size=64), "ViTModel has no classifier: it returns last_hidden"),
        (lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2)), "listens to sound"),
        (lambda: nn.Sequential(nn.Conv3d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2)), "watches videos"),
        (lambda: body()[:3], r"shape \(2, 12, 8, 8\) for 2 images: features.* Pass the whole network"),
        (timm("test_resnet", features_only=True), "nothing in it looks like them"),
        # Features, not classes.
        (timm("test_resnet", num_classes=0), r"ResNet has no classifier \(num_classes=0\): the \d+ numbers it returns"),
        (timm("test_vit", num_classes=0), r"VisionTransformer has no classifier \(num_classes=0\)"),
        (beheaded("resnet18", "fc"), r"ResNet has no classifier, a torch.nn.Identity stands where.* the 512 numbers"),
        (beheaded("mobilenet_v3_small", "classifier.3"), "the 1024 numbers it returns are features"),
    ],
)
def test_what_is_no_classifier_is_told_what_to_do(make, message):
    with pytest.raises(CutError, match=message):
        cut_as_logits(make().eval(), None, PROBE)


@pytest.mark.filterwarnings("error::partswap.explainer.notes.PartswapWarning")
@pytest.mark.parametrize(
    "make",
    [
        torchvision("squeezenet1_1", num_classes=5),  # a convolution, an activation, pooling
        timm("test_vit", num_classes=4),
        lambda: body(nn.Linear(12, 4), nn.Identity()),  # dropout that was taken away
        lambda: body(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4)),
    ],
)
def test_classifiers_are_taken_for_classifiers(make):
    assert Explainer(make(), auxiliary=None, preprocess=Preprocess(64)).notes == []


def test_what_may_be_features_is_said_to_be_classes_unless_they_have_names():
    with pytest.warns(PartswapWarning, match="seems to have 12 classes, and no classifier at its end"):
        explainer = Explainer(body(), auxiliary=None, preprocess=Preprocess(64))
    assert [note.kind for note in explainer.notes] == ["features"]
    names = [f"bird {k}" for k in range(12)]
    assert Explainer(body(), auxiliary=None, preprocess=Preprocess(64), class_names=names).notes == []
    with pytest.raises(ShapeError, match=r"3 class names for a model with 12 classes.*without its classifier"):
        Explainer(body(), auxiliary=None, preprocess=Preprocess(64), class_names=names[:3])


def test_a_backbone_still_makes_an_auxiliary():
    """Features are what is wanted there."""
    assert cut_network(timm("test_resnet", num_classes=0)(), probe=PROBE).classes > 5


def test_a_folder_whose_classifier_would_be_random_is_refused(tmp_path):
    transformer("ViTModel", "ViTConfig", image_size=64)().save_pretrained(tmp_path / "vit")
    with pytest.raises(CutError, match=r"the ViTModel that .* has no classifier: classifier.bias.* would be random"):
        Explainer(f"hf:{tmp_path / 'vit'}", preprocess=Preprocess(64))
    transformer("BertForSequenceClassification", "BertConfig")().save_pretrained(tmp_path / "bert")
    with pytest.raises(PartswapError, match=r"the BertForSequenceClassification in hf:.* cannot be loaded as an image"):
        Explainer(f"hf:{tmp_path / 'bert'}", preprocess=Preprocess(64))
