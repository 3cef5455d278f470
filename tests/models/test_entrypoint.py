"""Models of one's own: from a file or a module, whatever they return."""

import warnings

import pytest
import torch
from torch import nn

from partswap import METHODS, Counterfactual, Explainer, Preprocess, _vision, aviary, load_model
from partswap.errors import CutError, PartswapError, SettingError, UnknownNameError
from partswap.explainer.notes import PartswapWarning
from partswap.models import shipped
from partswap.models.open import describe, open_classifier

SOURCE = """
import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


def build():
    return Mine()


def build_many(classes=4):
    return Mine(classes)


def named():
    from partswap import Preprocess

    model = Mine()
    model.class_names = ["gull", "tern", "finch"]
    model.preprocess = Preprocess(64, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    return model


def broken():
    raise RuntimeError("no file")


def text():
    return "model"
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "mymodel.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mymodel.py"


def test_a_model_comes_from_a_file_or_a_module(file):
    for name in ("mymodel.py:build", f"{file}:build", "mymodel:build"):
        assert type(load_model(name)).__name__ == "Mine"
    assert load_model("mymodel.py:build_many", classes=7).fc.out_features == 7


def test_weights_of_a_file_fit_a_model_of_a_file(file, tmp_path):
    model = load_model("mymodel.py:build")
    with torch.no_grad():
        model.fc.bias.fill_(7)
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    assert float(load_model("mymodel.py:build", weights=tmp_path / "mine.pt").fc.bias[0].detach()) == 7


def test_a_model_may_carry_its_names_and_its_preprocessing(file):
    classifier = open_classifier("mymodel.py:named")
    assert list(classifier.classes) == ["gull", "tern", "finch"]
    assert classifier.preprocess.size == 64
    assert list(open_classifier("mymodel.py:build").classes) == ["class 0", "class 1", "class 2"]
    explainer = Explainer("mymodel.py:named")
    assert explainer.preprocess.size == 64
    assert explainer.class_names == ["gull", "tern", "finch"]


def test_what_is_wrong_with_a_file_is_said(file, tmp_path):
    (tmp_path / "bad.py").write_text("import nothing_like_this\n")
    for name, says in {
        "gone.py:build": "there is no file gone.py",
        "bad.py:build": "bad.py cannot be imported .ModuleNotFoundError",
        "mymodel.py:biuld": "Did you mean 'build'",
        "mymodel.py:broken": "RuntimeError: no file",
        "mymodel.py:text": "returned a str",
        "no_module_like_this:build": "no module of that name that can be imported",
    }.items():
        with pytest.raises(PartswapError, match=says):
            load_model(name)


def test_weights_of_a_model_that_has_its_own_are_not_ignored(tmp_path):
    with pytest.raises(SettingError, match="aviary:vgg has weights of its own"):
        open_classifier("aviary:vgg", "other.pt")
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet50'"):
        Explainer("resnet500")


@pytest.mark.parametrize("given", [None, Preprocess(64)])
def test_a_transform_that_became_a_step_of_a_sequential_is_refused(given):
    _vision.torchvision()
    from torchvision.transforms import v2

    transform = v2.Compose([v2.Resize((64, 64)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    model = network()
    model.preprocess = transform
    with pytest.raises(SettingError, match=r"Compose.*became its last step.*lambda image"):
        Explainer(model, preprocess=given)
    fixed = network()
    fixed.preprocess = lambda image: transform(image)
    assert Explainer(fixed).preprocess.shape == (64, 64)
    assert Explainer(network(), preprocess=transform).preprocess.shape == (64, 64)


# -- what models return -----------------------------------------------------------------------------------------------


def network(classes: int = 4, *after: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    body = [nn.Conv2d(3, 8, 8, 8), nn.ReLU(), nn.Conv2d(8, 8, 4, 4), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes), *after)


def test_probabilities_are_not_softmaxed_again():
    plain, soft = network(), network(4, nn.Softmax(1))
    soft.load_state_dict(plain.state_dict())
    images = [aviary.draw(k, 3).image for k in range(4)]
    with pytest.warns(PartswapWarning, match="returns probabilities"):
        explained = Explainer(soft)
    assert explained.notes[0].kind == "outputs"
    expected, found = (e.encode(images).logits.softmax(1) for e in (Explainer(plain), explained))
    assert torch.allclose(expected, found, atol=1e-6)
    assert explained.cut.layer.removeprefix("model.") == Explainer(plain).cut.layer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartswapWarning)
        assert Explainer(soft, "2").cut.layer == "model.2"  # names are those of the model itself


def test_one_sigmoid_per_class_is_noticed():
    with pytest.warns(PartswapWarning, match="one sigmoid per class"):
        Explainer(network(3, nn.Sigmoid()))


@pytest.mark.parametrize("last", [[], [nn.Sigmoid()], [nn.Flatten(0)]], ids=["logit", "probability", "flat"])
def test_one_output_speaks_for_two_classes(last):
    model = network(1, *last)
    images = [aviary.draw(k, 3).image for k in range(6)]
    with pytest.warns(PartswapWarning, match="class 1 is yes"):
        explainer = Explainer(model, class_names=["no gull", "gull"])
    assert explainer.cut.classes == 2
    inputs = torch.stack([explainer.preprocess(image)[0] for image in images])
    with torch.no_grad():
        out = model(inputs).reshape(-1)
    expected = out if last and isinstance(last[0], nn.Sigmoid) else out.sigmoid()
    assert torch.allclose(explainer.encode(images).logits.softmax(1)[:, 1], expected, atol=1e-5)
    assert list(describe(model, "mine").classes) == ["class 0", "class 1"]
    assert explainer.cut.route == "fx"  # as exact and as fast as any other


@pytest.mark.filterwarnings("ignore::partswap.explainer.notes.PartswapWarning")
@pytest.mark.parametrize("classes", [1, 4])
@pytest.mark.parametrize("probability", [False, True])
def test_the_model_itself_verifies_whatever_it_returns(classes, probability, tmp_path):
    model = network(classes, *([nn.Softmax(1) if classes > 1 else nn.Sigmoid()] if probability else []))
    explainer = Explainer(model)
    for k in range(6):
        aviary.draw(k, 3).image.save(tmp_path / f"{k}.png")
    paths = sorted(tmp_path.glob("*.png"))
    second = int(explainer.encode(paths[:1]).logits[0].topk(2).indices[1])
    cf = explainer.explain(paths[0], paths[1:], second, keep_misclassified=True)
    assert cf.edits
    assert cf.verify(model)
    assert Counterfactual.load(cf.save(tmp_path / "why.json")).verify(model)


class Several(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.net, self.kind = network(), kind

    def forward(self, x):
        out = self.net(x)
        return {"tuple": (out, x), "dict": {"out": out}, "text": "x", "grid": out[:, :, None, None]}[self.kind]


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x, y):
        return self.net(x) + y


@pytest.mark.parametrize("model", [*map(Several, ("tuple", "dict", "text", "grid")), TwoInputs()])
def test_several_inputs_or_outputs_are_refused_with_how_to_wrap(model):
    with pytest.raises(CutError, match=r"(?i)wrap|logits"):
        Explainer(model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_half_and_double_models_are_explained(dtype):
    explainer = Explainer(network().to(dtype))
    queries = [aviary.draw(k, 3).image for k in range(12)]
    second = int(explainer.encode(queries[:1]).logits[0].topk(2).indices[1])
    cf = explainer.explain(queries[0], queries[1:], second, keep_misclassified=True)
    assert cf.edits
    assert explainer.verify(cf)
    assert cf.verify(explainer.cut)


def test_a_model_without_data_is_refused():
    with torch.device("meta"):
        model = network()
    with pytest.raises(CutError, match="meta"):
        Explainer(model)


def test_a_layer_may_be_the_module_itself():
    model = network()
    assert Explainer(model, model[2]).cut.layer == "2"
    with pytest.raises(PartswapError, match="layer"):
        Explainer(model, nn.Conv2d(3, 3, 1))


# -- int8, and heads without gradients --------------------------------------------------------------------------------


class OutsideOfTorch(nn.Module):
    """The last layer is numpy's: no gradients pass through it."""

    def __init__(self):
        super().__init__()
        self.body = network()[:6]
        self.weight = network()[6].weight.detach().numpy()

    def forward(self, x):
        return torch.from_numpy(self.body(x).detach().numpy() @ self.weight.T)


def quantised():
    """Return a network whose last layer scales what it gets by the whole batch."""
    return torch.ao.quantization.quantize_dynamic(network(), {nn.Linear}, dtype=torch.qint8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [OutsideOfTorch, quantised])
def test_a_head_without_gradients_is_evaluated_exactly_and_that_is_said(make):
    model, size = make(), Preprocess(64)
    explainer = Explainer(model, auxiliary=None, preprocess=size)
    images = [aviary.draw(k, 3).image for k in range(4)]
    second = int(explainer.encode(images[:1]).logits[0].topk(2).indices[1])
    given = {"target": second, "keep_misclassified": True}
    for method in (METHODS.get("goyal")(max_edits=1, screen=1), METHODS.get("goyal")(max_edits=1, screen=None)):
        cf = explainer.explain(images[0], images[1:], method=method, **given)
        assert cf.evaluations == 4 * 4  # all of the one distractor
        assert explainer.verify(cf).deviation == 0
        assert cf.verify(model)
    assert [note.kind for note in explainer.notes].count("gradients") == 1
    with pytest.raises(CutError, match="SCOUT's maps are gradients"):
        explainer.explain(images[0], images[1:], method="scout", **given)


@pytest.mark.filterwarnings("ignore")
def test_what_depends_on_its_batch_is_evaluated_one_by_one():
    model = quantised()
    explainer = Explainer(model, auxiliary=None, preprocess=Preprocess(64))
    assert [note.kind for note in explainer.notes if note.kind in ("batch", "features")] == ["batch"]
    inputs = torch.stack([explainer.preprocess(aviary.draw(k, 3).image)[0] * (1 + 3 * k) for k in range(4)])
    with torch.no_grad():
        alone = torch.cat([model(image[None]) for image in inputs])
        assert not torch.allclose(model(inputs), alone, atol=1e-5)
    assert torch.allclose(explainer.cut.head(explainer.cut.features(inputs)), alone, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_grid_of_integers_is_refused():
    from torch.ao.quantization import get_default_qconfig_mapping, quantize_fx

    images = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    prepared = quantize_fx.prepare_fx(network().eval(), get_default_qconfig_mapping("x86"), (images,))
    prepared(images)
    with pytest.raises(
        CutError, match=r"quantised: what it gives at .* are integers \(torch.quint8\).* in floating point"
    ):
        Explainer(quantize_fx.convert_fx(prepared), auxiliary=None, preprocess=Preprocess(64))


# -- several labels per image -----------------------------------------------------------------------------------------


class ManyLabels(nn.Module):
    """Six classes, each for itself: most are off in every image, a few on."""

    def __init__(self, *, probabilities=False):
        super().__init__()
        torch.manual_seed(3)
        self.body, self.fc, self.probabilities = network()[:6], nn.Linear(8, 6), probabilities
        with torch.no_grad():
            self.fc.weight.mul_(8)
            self.fc.bias.copy_(torch.tensor([0.3, 0.2, -5, -6, -7, -8]))

    def forward(self, x):
        logits = self.fc(self.body(x))
        return logits.sigmoid() if self.probabilities else logits


@pytest.mark.filterwarnings("ignore::partswap.explainer.notes.PartswapWarning")
def test_several_labels_per_image_are_sigmoids_if_that_is_said(tmp_path):
    given = {"auxiliary": None, "preprocess": Preprocess(64)}
    explainer = Explainer(ManyLabels(), activation="sigmoid", **given)
    images = [aviary.draw(k, 3).image for k in range(4)]
    logits = explainer.encode(images).logits
    said, target = (int(k) for k in logits[0].topk(2).indices)
    assert explainer.guesses(images[0], 6)[0][1] == pytest.approx(float(logits[0].sigmoid().max()))
    for method in ("partswap", "goyal", METHODS.get("goyal")(screen=2), "scout"):
        cf = explainer.explain(images[0], images[1:], target, method=method, keep_misclassified=True, pixel=True)
        assert cf.before.target_probability == pytest.approx(float(logits[0, target].sigmoid()), abs=1e-5)
        assert cf.before.original_class_probability == pytest.approx(float(logits[0, said].sigmoid()), abs=1e-5)
        assert cf.pixel.before == pytest.approx(cf.before.target_probability, abs=1e-5)
        assert explainer.verify(cf)
        read = Counterfactual.load(cf.save(tmp_path / "why.json"))
        assert read.verify(ManyLabels(), images[0], images[1 : 1 + cf.distractors])
        assert "labels" not in [note.kind for note in explainer.notes]
    greedy = explainer.explain(images[0], images[1:], target, method="goyal", keep_misclassified=True)
    single = Explainer(ManyLabels(probabilities=True), activation="sigmoid", **given)
    assert single.notes[0].kind == "outputs"
    assert single.explain(images[0], images[1:], target, method="goyal", keep_misclassified=True).edits == greedy.edits
    # The objective is the target's own sigmoid, of all swaps the best.
    best = explainer.explain(
        images[0], images[1:], target, method=METHODS.get("goyal")(screen=None, max_edits=1), keep_misclassified=True
    )
    grids = explainer.encode(images[:2]).grids
    cells, donors = grids[0].flatten(1), grids[1].flatten(1)
    swapped = torch.stack([cells.clone() for _ in range(cells.shape[1] * donors.shape[1])])
    for k, grid in enumerate(swapped):
        grid[:, k // donors.shape[1]] = donors[:, k % donors.shape[1]]
    found = explainer.cut.head(swapped.view(-1, *grids.shape[1:]))[:, target].sigmoid()
    assert best.probability == pytest.approx(float(found.detach().max()), abs=1e-5)
    with pytest.raises(SettingError, match="activation is 'tanh'"):
        Explainer(ManyLabels(), activation="tanh", **given)


def test_many_labels_read_as_a_softmax_are_noticed(recwarn):
    images = [aviary.draw(k, 3).image for k in range(4)]
    shipped_ones = [(shipped.load(name), 0, shipped.PREPROCESS) for name in ("vgg", "resnet")]
    for model, noted, preprocess in ((ManyLabels(), 1, Preprocess(64)), (network(6), 0, Preprocess(64)), *shipped_ones):
        explainer = Explainer(model, auxiliary=None, preprocess=preprocess)
        target = int(explainer.encode(images[:1]).logits[0].topk(2).indices[1])
        for _ in range(2):  # said once
            explainer.explain(images[0], images[1:], target, keep_misclassified=True)
        assert [note.kind for note in explainer.notes].count("labels") == noted
