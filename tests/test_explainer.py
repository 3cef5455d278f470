"""Images in, counterfactual out."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from partswap import METHODS, Auxiliary, Explainer, Preprocess, aviary
from partswap.errors import (
    ClassIndexError,
    ImageError,
    LayerError,
    NoDistractorsError,
    NondeterministicModelError,
    SettingError,
    ShapeError,
    UnknownNameError,
)
from partswap.images import read_image
from partswap.models import shipped

NAMES = [s.name for s in aviary.all_species()]


@pytest.fixture(scope="module")
def explainer():
    return Explainer(shipped.load("vgg"), auxiliary="aviary", preprocess=shipped.PREPROCESS, class_names=NAMES)


@pytest.fixture(scope="module")
def birds():
    return aviary.draw(4, 7).image, [aviary.draw(5, seed).image for seed in range(4)]


def test_the_first_ten_lines_work(explainer, birds, tmp_path):
    cf = explainer.explain(*birds, target=NAMES[5])
    assert cf.flipped
    assert "Olive Warbler -> Spectacled Warbler" in str(cf)
    cf.plot(tmp_path / "why.png")
    assert type(cf).load(cf.save(tmp_path / "why.json")) == cf
    assert cf.source["layer"] == explainer.cut.layer
    assert cf.source["auxiliary"] == "aviary"


def test_paths_arrays_images_and_tensors_are_all_images(explainer, birds, tmp_path):
    query, donors = birds
    query.save(tmp_path / "q.png")
    tensor, _ = explainer.preprocess(query)
    forms = [query, tmp_path / "q.png", str(tmp_path / "q.png"), np.asarray(query), tensor]
    found = [explainer.explain(form, donors, target=5).edits for form in forms]
    assert all(edits == found[0] for edits in found)


def test_the_target_is_the_second_guess_unless_told(explainer, birds):
    encoded = explainer.encode([birds[0]])
    second = int(encoded.logits[0].topk(2).indices[1])
    cf = explainer.explain(encoded, [aviary.draw(second, s).image for s in range(4)])
    assert cf.target == second


def test_many_queries_equal_one_by_one(explainer, birds):
    _, donors = birds
    queries = [aviary.draw(4, seed).image for seed in (7, 8)]
    many = explainer.explain_many(queries, donors, 5)
    assert [cf.edits for cf in many] == [explainer.explain(q, donors, 5).edits for q in queries]


def test_it_verifies_on_images(explainer, birds):
    query, donors = birds
    cf = explainer.explain(query, [aviary.draw(30, 0).image, *donors], target=5)
    x, _ = explainer.preprocess(query)
    y = torch.stack([explainer.preprocess(d)[0] for d in [aviary.draw(30, 0).image, *donors]])
    assert cf.verify(explainer.cut, x, y[cf.source["distractor_indices"]])


def test_an_auxiliary_in_training_mode_is_used_in_eval_mode_and_left_alone(birds):
    trunk = shipped.load("auxiliary").train()
    state = {k: v.clone() for k, v in trunk.state_dict().items()}
    auxiliary = Auxiliary("mine", trunk, Preprocess(160, 200))
    canvases = [birds[0], *birds[1]]
    torch.testing.assert_close(auxiliary.grids(canvases)[:1], auxiliary.grids(canvases[:1]), rtol=1e-4, atol=1e-4)
    assert trunk.training
    assert all(torch.equal(v, state[k]) for k, v in trunk.state_dict().items())
    assert auxiliary.grids(canvases).shape[2:] == (10, 10)  # the whole canvas, resized and not cropped
    with pytest.raises(ShapeError, match="returned a list"):
        Auxiliary("list", Listed(), Preprocess(160)).grids(canvases)


class Listed(nn.Module):
    def forward(self, x):
        return [x]


def test_the_auxiliary_brings_its_temperature():
    auxiliary = Auxiliary("mine", shipped.load("auxiliary"), shipped.PREPROCESS, tau=0.05)
    options = {"preprocess": shipped.PREPROCESS, "auxiliary": auxiliary}
    assert Explainer(shipped.load("vgg"), **options, method="paper").method.tau == 0.05
    assert Explainer(shipped.load("vgg"), **options, method=METHODS.get("paper")(tau=0.2)).method.tau == 0.2


def test_a_module_can_be_the_auxiliary_and_none_leaves_the_term_out(birds):
    model = shipped.load("resnet")
    trunk = nn.Sequential(model.stem, model.layer1, model.layer2)
    own = Explainer(model, "layer4.0", auxiliary=trunk, preprocess=shipped.PREPROCESS)
    assert own.explain(*birds, target=5, keep_misclassified=True).settings["semantic"]
    bare = Explainer(model, "layer4.0", preprocess=shipped.PREPROCESS)
    assert not bare.explain(*birds, target=5, keep_misclassified=True).settings["semantic"]


def test_misclassified_distractors_are_left_out(explainer, birds):
    query, donors = birds
    stranger = aviary.draw(30, 0).image
    cf = explainer.explain(query, [stranger, *donors], target=5)
    assert 0 not in cf.source["distractor_indices"]
    assert cf.distractors == len(cf.source["distractor_indices"])
    with pytest.raises(NoDistractorsError, match="none of the 1 distractors is predicted as the target Spectacled"):
        explainer.explain(query, [stranger], target=5)


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (99, ClassIndexError, "0 to 39"),
        ("Spectacled Wobbler", ClassIndexError, "Did you mean 'Spectacled Warbler'"),
    ],
)
def test_a_wrong_target_is_named(explainer, birds, target, error, message):
    with pytest.raises(error, match=message):
        explainer.explain(*birds, target=target)


def test_bad_images_are_named(explainer, birds, tmp_path):
    query, donors = birds
    with pytest.raises(ImageError, match=r"no image .*gone.jpg"):
        explainer.explain(tmp_path / "gone.jpg", donors, 5)
    (tmp_path / "text.jpg").write_text("not an image")
    with pytest.raises(ImageError, match=r"text.jpg cannot be read"):
        explainer.explain(tmp_path / "text.jpg", donors, 5)
    query.save(tmp_path / "cut.jpg")
    data = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    with pytest.raises(ImageError, match=r"cut.jpg cannot be read"):
        explainer.explain(tmp_path / "cut.jpg", donors, 5)
    with pytest.raises(ShapeError, match=r"\(3, height, width\)"):
        explainer.explain(torch.zeros(1, 224, 224), donors, 5)
    with pytest.raises(ImageError, match="NaN"):
        explainer.explain(torch.full((3, 224, 224), float("nan")), donors, 5)
    with pytest.raises(ImageError, match="float64"):
        explainer.explain(np.zeros((224, 224, 3)), donors, 5)
    with pytest.raises(ImageError, match="not an image"):
        explainer.explain(np.zeros((3, 224, 224), np.uint8), donors, 5)
    with pytest.raises(ShapeError, match="uint8"):
        explainer.explain(torch.zeros(3, 224, 224, dtype=torch.uint8), donors, 5)
    with pytest.raises(ShapeError, match="Pass a list of images"):
        explainer.explain(query, donors[0], 5)
    with pytest.raises(NoDistractorsError):
        explainer.explain(query, [], 5)


def test_grey_and_transparent_images_become_rgb():
    for mode in ("L", "RGBA", "P", "CMYK", "1"):
        assert read_image(Image.new(mode, (8, 8))).mode == "RGB"


def test_the_canvas_is_the_centre_the_model_sees():
    wide = Image.new("RGB", (600, 300), "black")
    wide.paste("white", (300, 0, 600, 300))
    canvas = np.asarray(Preprocess(224, 256).canvas(wide))
    assert canvas.shape == (224, 224, 3)
    assert canvas[:, :110].max() == 0
    assert canvas[:, 114:].min() == 255


def test_wrong_settings_are_named():
    model = shipped.load("vgg")
    with pytest.raises(ShapeError, match="2 class names for a model with 40"):
        Explainer(model, preprocess=shipped.PREPROCESS, class_names=["a", "b"])
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        Explainer(model, preprocess=shipped.PREPROCESS, method="papre")
    with pytest.raises(UnknownNameError, match="Did you mean 'aviary'"):
        Explainer(model, preprocess=shipped.PREPROCESS, auxiliary="avairy")
    with pytest.raises(LayerError, match="features"):
        Explainer(model, "featurs", preprocess=shipped.PREPROCESS)
    with pytest.raises(SettingError, match="no class names"):
        Explainer(model, preprocess=shipped.PREPROCESS).explain(
            Image.new("RGB", (224, 224)), [Image.new("RGB", (9, 9))], "a"
        )


def test_a_model_that_rolls_dice_is_refused():
    class Dice(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Conv2d(3, 8, 32, 32)
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            x = self.body(x)
            return self.fc((x + torch.rand_like(x)).mean((2, 3)))

    with pytest.raises(NondeterministicModelError):
        Explainer(Dice(), "body")
