"""Images in, counterfactual out."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import partswap
from partswap import (
    METHODS,
    Auxiliary,
    Counterfactual,
    Edit,
    Explainer,
    GridShape,
    Preprocess,
    Step,
    _vision,
    aviary,
    open_dataset,
)
from partswap.errors import (
    ClassIndexError,
    DataError,
    ImageError,
    LayerError,
    NoDistractorsError,
    NondeterministicModelError,
    PartswapError,
    SettingError,
    ShapeError,
    UnexplainedError,
    UnknownNameError,
)
from partswap.explainer.notes import PartswapWarning
from partswap.explainer.target import choose_target
from partswap.inputs.images import read_image
from partswap.models import shipped
from partswap.models.names import normalize_name
from partswap.models.open import open_classifier
from partswap.results.words import percent
from partswap.search.settings import changed
from partswap.utils.notes import Note

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
    assert cf.source.layer == explainer.cut.layer
    assert cf.source.auxiliary == "aviary"


def test_one_call_explains_as_an_explainer_does(explainer, birds):
    query, distractors = birds
    cf = partswap.explain("aviary:vgg", query, distractors, NAMES[5], auxiliary="aviary", keep_misclassified=True)
    assert cf.edits == explainer.explain(query, distractors, 5, keep_misclassified=True).edits
    with pytest.raises(SettingError, match=r"no option 'auxilary'.*Did you mean 'auxiliary'"):
        partswap.explain("aviary:vgg", query, distractors, auxilary="aviary")


def test_paths_arrays_images_and_tensors_are_all_images(explainer, birds, tmp_path):
    query, distractors = birds
    query.save(tmp_path / "q.png")
    tensor, _ = explainer.preprocess(query)
    forms = [query, tmp_path / "q.png", str(tmp_path / "q.png"), np.asarray(query), tensor]
    results = [explainer.explain(form, distractors, target=5).edits for form in forms]
    assert all(edits == results[0] for edits in results)


def test_the_target_is_the_second_guess_unless_told(explainer, birds):
    encoded = explainer.encode([birds[0]])
    second = int(encoded.logits[0].topk(2).indices[1])
    cf = explainer.explain(encoded, [aviary.draw(second, s).image for s in range(4)])
    assert cf.target == second


def test_many_queries_equal_one_by_one(explainer, birds):
    _, distractors = birds
    queries = [aviary.draw(4, seed).image for seed in (7, 8)]
    many = explainer.explain_many(queries, distractors, 5)
    assert [cf.edits for cf in many] == [explainer.explain(q, distractors, 5).edits for q in queries]


def test_each_of_many_queries_may_have_a_target_of_its_own(explainer, birds):
    _, distractors = birds
    queries = [aviary.draw(4, seed).image for seed in (7, 8, 9)]
    many = explainer.explain_many(queries, distractors, [5, None, "6"], keep_misclassified=True)
    chosen = explainer.explain(queries[1], distractors, keep_misclassified=True)
    assert [cf.target for cf in many] == [5, chosen.target, 6]
    assert [cf.source.target_from.kind == "given" for cf in many] == [True, False, True]
    for wrong, error, message in (
        ([5, 6], ShapeError, "2 targets for 3 queries"),
        ([5, 6, 40], ClassIndexError, "40"),
        (["Spect", None, 5], ClassIndexError, "Spect"),
    ):
        with pytest.raises(error, match=message):
            explainer.explain_many(["never read.png"] * 3, distractors, wrong)


@pytest.fixture
def some_fail(explainer, birds, tmp_path):
    """Queries of which the second cannot be read and the third is the target already, and distractors."""
    query, distractors = birds
    (tmp_path / "broken.png").write_bytes(b"no image")
    already = distractors[explainer.encode(distractors).logits.argmax(1).tolist().index(5)]
    return [query, tmp_path / "broken.png", already, aviary.draw(4, 8).image], distractors


def test_an_image_that_fails_does_not_stop_the_others(explainer, some_fail):
    queries, distractors = some_fail
    with pytest.raises(UnexplainedError) as raised:
        explainer.explain_many(queries, distractors, 5)
    error = pickle.loads(pickle.dumps(raised.value))
    assert "2 of 4 images could not be explained: image 2 (broken.png): " in str(error)
    assert "; image 3: the model already says" in str(error)
    assert [(failure.index, type(failure.error)) for failure in error.failures] == [
        (1, ImageError),
        (2, ClassIndexError),
    ]
    expected = [None if k in (1, 2) else explainer.explain(queries[k], distractors, 5).edits for k in range(4)]
    assert [cf and cf.edits for cf in error.results] == expected
    with pytest.warns(PartswapWarning, match="2 of 4 images could not be explained"):
        results = explainer.explain_many(queries, distractors, 5, on_error="skip")
    assert [cf and cf.edits for cf in results] == expected
    with pytest.raises(SettingError, match="Use 'raise' or 'skip'"):
        explainer.explain_many(queries, distractors, 5, on_error="ignore")


def test_where_no_image_can_be_read_every_one_is_named(explainer, birds):
    queries = [f"{k}.png" for k in range(12)]
    with pytest.raises(UnexplainedError, match=r"12 of 12 .*image 10 \(9.png\).*; and 2 more\.") as raised:
        explainer.explain_many(queries, birds[1], 5)
    assert raised.value.results == (None,) * 12


def test_it_verifies_on_images(explainer, birds):
    query, distractors = birds
    cf = explainer.explain(query, [aviary.draw(30, 0).image, *distractors], target=5)
    x, _ = explainer.preprocess(query)
    y = torch.stack([explainer.preprocess(d)[0] for d in [aviary.draw(30, 0).image, *distractors]])
    assert cf.verify(explainer.cut, x, y[cf.source.distractor_indices])


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


@pytest.fixture(scope="module")
def own_tau():
    """An explainer whose auxiliary has a temperature of its own."""
    auxiliary = Auxiliary("own", shipped.load("auxiliary"), shipped.PREPROCESS, tau=0.05)
    return Explainer(shipped.load("vgg"), preprocess=shipped.PREPROCESS, auxiliary=auxiliary)


@pytest.mark.parametrize("name", METHODS.names())
def test_a_method_given_by_name_and_as_an_object_searches_alike(name, own_tau, birds):
    by_name = own_tau.explain(*birds, target=5, method=name)
    as_object = own_tau.explain(*birds, target=5, method=METHODS.get(name)())
    assert by_name.edits == as_object.edits
    assert by_name.settings.get("temperature") == as_object.settings.get("temperature")
    assert by_name.settings.get("tau") == as_object.settings.get("tau")


def test_the_paper_s_method_searches_at_the_auxiliary_s_temperature_unless_it_has_one(own_tau, birds):
    paper = METHODS.get("paper")
    results = [
        own_tau.explain(*birds, target=5, method=method).settings for method in ("paper", paper(), paper(tau=0.2))
    ]
    assert [settings["temperature"] for settings in results] == [0.05, 0.05, 0.2]
    ours = own_tau.explain(*birds, target=5).settings
    assert ours["tau"] == "auto"
    assert ours["temperature"] not in (0.05, 0.1)


def test_a_module_can_be_the_auxiliary_and_none_leaves_the_term_out(birds):
    model = shipped.load("resnet")
    trunk = nn.Sequential(model.stem, model.layer1, model.layer2)
    own = Explainer(model, "layer4.0", auxiliary=trunk, preprocess=shipped.PREPROCESS)
    assert own.explain(*birds, target=5, keep_misclassified=True).settings["semantic"]
    bare = Explainer(model, "layer4.0", auxiliary=None, preprocess=shipped.PREPROCESS)
    assert not bare.explain(*birds, target=5, keep_misclassified=True).settings["semantic"]


def test_misclassified_distractors_are_left_out(explainer, birds):
    query, distractors = birds
    stranger = aviary.draw(30, 0).image
    cf = explainer.explain(query, [stranger, *distractors], target=5)
    assert 0 not in cf.source.distractor_indices
    assert cf.distractors == len(cf.source.distractor_indices)
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
    query, distractors = birds
    with pytest.raises(ImageError, match=r"no image .*gone.jpg"):
        explainer.explain(tmp_path / "gone.jpg", distractors, 5)
    (tmp_path / "text.jpg").write_text("not an image")
    with pytest.raises(ImageError, match=r"text.jpg cannot be read"):
        explainer.explain(tmp_path / "text.jpg", distractors, 5)
    query.save(tmp_path / "cut.jpg")
    data = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    with pytest.raises(ImageError, match=r"cut.jpg cannot be read"):
        explainer.explain(tmp_path / "cut.jpg", distractors, 5)
    with pytest.raises(ShapeError, match=r"\(3, height, width\)"):
        explainer.explain(torch.zeros(1, 224, 224), distractors, 5)
    with pytest.raises(ImageError, match="NaN"):
        explainer.explain(torch.full((3, 224, 224), float("nan")), distractors, 5)
    with pytest.raises(ImageError, match="float64"):
        explainer.explain(np.zeros((224, 224, 3)), distractors, 5)
    with pytest.raises(ImageError, match="not an image"):
        explainer.explain(np.zeros((3, 224, 224), np.uint8), distractors, 5)
    with pytest.raises(ImageError, match="uint8"):
        explainer.explain(torch.zeros(224, 224, 3, dtype=torch.uint8), distractors, 5)
    with pytest.raises(NoDistractorsError):
        explainer.explain(query, [], 5)


def test_grey_and_transparent_images_become_rgb():
    for mode in ("L", "RGBA", "P", "CMYK", "1"):
        assert read_image(Image.new(mode, (8, 8))).mode == "RGB"


def test_the_canvas_is_the_centre_the_model_sees():
    wide = Image.new("RGB", (600, 300), "black")
    wide.paste("white", (300, 0, 600, 300))
    canvas = np.asarray(Preprocess(224, 256).crop(wide))
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
    with pytest.raises(SettingError, match="names of the classes are unknown"):
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


# -- what is explained, and towards what ------------------------------------------------------------------------------


def test_the_target_is_what_most_distractors_are_predicted_as(explainer, birds):
    query, distractors = birds
    predicted = explainer.encode(distractors).logits.argmax(1).tolist()
    right, wrong = [d for d, k in zip(distractors, predicted, strict=True) if k == 5], distractors[predicted.index(4)]
    cf = explainer.explain(query, [*right, wrong])
    assert cf.target == 5
    assert cf.source.target_from == Note(
        "distractors", f"what {len(right)} of {len(right) + 1} distractors are predicted as"
    )
    # Half of them are no majority, and one of six is none either.
    encoded = explainer.encode(query if isinstance(query, list) else [query])
    guess = int(encoded.logits[0].topk(2).indices[1])
    for images in ([*right[:1], wrong], [*right[:1], *[wrong] * 5]):
        chosen, note = choose_target(encoded.logits[0], None, None, explainer.encode(images).logits, NAMES)
        assert (chosen, note.kind) == (guess, "guess")
        assert f"(1 of {len(images)} are {NAMES[5]})" in note.text
    mixed = [*distractors[:1], *(aviary.draw(k, 0).image for k in (10, 20, 30))]
    with pytest.raises(NoDistractorsError) as caught:
        explainer.explain(query, mixed)
    assert "(the model's second guess; no majority" in str(caught.value)
    assert "; they are predicted as" in str(caught.value)


def test_methods_of_one_distractor_take_the_first_that_will_do(explainer, birds):
    query, distractors = birds
    predicted = explainer.encode(distractors).logits.argmax(1).tolist()
    first = predicted.index(5)
    for method in ("goyal", "scout"):
        cf = explainer.explain(query, distractors, 5, method=method)
        assert (cf.distractors, cf.source.distractor_indices) == (1, [first])
        alone = explainer.explain(query, [distractors[first]], 5, method=method)
        assert cf.edits == alone.edits
        assert explainer.verify(cf)
    assert explainer.explain(query, distractors, 5, method="paper").distractors == predicted.count(5) > 1


def test_errors_say_what_distractors_are_predicted_as(explainer, birds):
    query, distractors = birds
    with pytest.raises(NoDistractorsError, match=rf"target {NAMES[30]}; they are predicted as .*Warbler \(\d\)"):
        explainer.explain(query, distractors, NAMES[30])
    with pytest.raises(ClassIndexError, match="already says Olive Warbler"):
        explainer.explain(query, distractors, "Olive Warbler")


def test_a_mistake_is_explained_towards_the_true_class(explainer, birds):
    query, _ = birds
    predicted = int(explainer.encode([query]).logits[0].argmax())
    truth = 5 if predicted != 5 else 4
    right = [aviary.draw(truth, seed).image for seed in range(6)]
    cf = explainer.explain((query, truth), right)  # an item of a data set: an image and its label
    assert (cf.query_class, cf.target, cf.source.target_from.kind) == (predicted, truth, "label")
    assert cf.edits == explainer.explain(query, right, label=NAMES[truth]).edits
    assert cf.source.label == truth


def test_the_number_of_a_folder_is_no_class_of_the_model(explainer, tmp_path):
    names = [NAMES[30], NAMES[4], "a bird of another world"]
    for k, name in enumerate(names):
        (tmp_path / f"{k + 1:03}.{name.replace(' ', '_')}").mkdir()
        image = aviary.draw(30 if k == 0 else 4, 7).image
        image.save(tmp_path / f"{k + 1:03}.{name.replace(' ', '_')}" / "bird.png")
    items = {normalize_name(item.class_name): item for item in open_dataset("folder", tmp_path, "all")}
    distractors = [aviary.draw(5, seed).image for seed in range(4)]
    assert explainer.explain(items["a bird of another world"], distractors).source.label is None  # not class 2
    labeled = explainer.explain(items[normalize_name(NAMES[4])], distractors)
    assert labeled.source.label == 4  # not class 1
    (many,) = explainer.explain_many([items[normalize_name(NAMES[4])]], distractors)
    assert many.source.label == 4
    assert many.edits == labeled.edits


def test_distractors_are_called_what_the_model_says_of_them(explainer, birds):
    query, distractors = birds
    predicted = explainer.encode(distractors).logits.argmax(1).tolist()
    assert len(set(predicted)) == 2
    cf = explainer.explain(query, distractors, 5, keep_misclassified=True)
    assert [cf.distractor_class(k) for k in range(len(distractors))] == predicted
    assert {cf.class_name(k) for k in predicted} == {NAMES[k] for k in predicted}
    used = {edit.distractor_image for edit in cf.edits}
    texts = [text.get_text() for text in cf.plot(kind="trace").texts]
    for each in used:  # above the name of a distractor stands its class
        assert texts[texts.index(f"distractor {cf.distractor_number(each)}") - 1] == NAMES[predicted[each]]
    right = explainer.explain(query, distractors, 5)
    assert not right.source.distractor_classes
    assert {right.distractor_class(k) for k in range(right.distractors)} == {5}


def test_distractors_are_found_in_a_data_set(explainer, birds):
    data = open_dataset("aviary", split="test", per_class=4)
    cf = explainer.explain(birds[0], data, "Spectacled Warbler")
    assert cf.flipped
    assert cf.distractors >= 1
    labels = {data.image_name(i): data.label(i) for i in range(len(data))}
    assert {labels[name] for name in cf.source.distractors} == {5}
    other = Explainer("aviary:vgg", class_names=[f"x{k}" for k in range(40)])
    with pytest.raises(DataError, match="classes of the data set are not"):
        other.explain(birds[0], data, 5)


def test_folders_generators_and_items_are_distractors(explainer, birds, tmp_path):
    query, distractors = birds
    (tmp_path / "distractors").mkdir()
    for k, distractor in enumerate(distractors):
        distractor.save(tmp_path / "distractors" / f"{k}.png")
    expected = explainer.explain(query, distractors, 5).edits
    loader = torch.utils.data.DataLoader([(explainer.preprocess(d)[0], 5) for d in distractors], batch_size=3)
    torch_like = torch.utils.data.Subset([(d, 5) for d in distractors], range(len(distractors)))  # has no __iter__
    items = [{"image": d, "label": 5} for d in distractors]  # as data sets of Hugging Face give them
    folder = tmp_path / "distractors"
    for given in (
        folder,
        str(folder),
        iter(distractors),
        tuple(distractors),
        [(d, 5) for d in distractors],
        torch_like,
        items,
        loader,
    ):
        assert explainer.explain(query, given, 5).edits == expected


def test_one_image_however_it_comes_is_a_query_and_a_distractor(explainer, birds, tmp_path):
    query, distractors = birds
    right = next(d for d in distractors if int(explainer.encode(d).logits.argmax()) == 5)
    right.save(tmp_path / "distractor.png")
    (tmp_path / "queries").mkdir()
    query.save(tmp_path / "queries" / "one.png")
    tensor = explainer.preprocess(query)[0]
    loader = torch.utils.data.DataLoader([(tensor, 4)])
    expected = explainer.explain(query, [right], 5)
    for form in (right, tmp_path / "distractor.png", np.asarray(right)[None], explainer.preprocess(right)[0][None]):
        assert explainer.explain(query, form, 5).edits == expected.edits
    for form in ([query], tmp_path / "queries", tensor[None], loader, next(iter(loader)), {"image": query}):
        assert explainer.explain(form, right, 5).edits == expected.edits
    assert explainer.explain(next(iter(loader)), right, 5).source.label == 4
    with pytest.raises(ShapeError, match="there are 2 queries"):
        explainer.explain([query, query], right, 5)


# -- what is quietly wrong with inputs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_unit_tensors():
    return Explainer("aviary:vgg", auxiliary=None, preprocess=shipped.PREPROCESS, tensors="unit")


def test_float_tensors_are_taken_for_what_they_are_or_refused(explainer, of_unit_tensors, birds):
    query, distractors = birds
    unit = torch.from_numpy(np.asarray(query).copy()).permute(2, 0, 1) / 255
    with pytest.raises(ImageError, match=r'from 0\S* to \S+: it may be pixels .* tensors="unit" or tensors="stand'):
        explainer.explain(unit, distractors, 5)
    for each in (explainer, of_unit_tensors):
        with pytest.raises(ImageError, match=r"pixels of 0 to 255, not standardised. Pass it as uint8"):
            each.explain(unit * 255, distractors, 5)
    encoded = of_unit_tensors.encode([unit, query])
    assert torch.allclose(encoded.logits[0], encoded.logits[1], atol=1e-4)
    cf = of_unit_tensors.explain(unit, distractors, 5)
    assert of_unit_tensors.verify(cf)
    assert cf.verify(of_unit_tensors.model)
    with pytest.raises(ImageError, match=r'and tensors is "unit"'):
        of_unit_tensors.encode([unit * 3 - 1])
    taken = Explainer("aviary:vgg", auxiliary=None, preprocess=shipped.PREPROCESS, tensors="standardised")
    assert torch.equal(taken.preprocess(unit)[0], unit)
    own = Preprocess(224, mean=(0, 0, 0), std=(1, 1, 1))  # nothing is to be standardised, so both are the same
    assert torch.equal(own(unit)[0], unit)
    with pytest.raises(SettingError, match="'unit' or 'standardised'"):
        Explainer("aviary:vgg", auxiliary=None, tensors="0-1")


def test_folders_tell_which_files_are_not_read(birds, tmp_path):
    explainer = Explainer("aviary:vgg", auxiliary=None)
    _, distractors = birds
    for distractor, name in zip(distractors, ("a.png", "b.gif", "c.jfif", "d.ppm"), strict=True):
        distractor.save(tmp_path / name)
    for name in ("e.heic", "f.heic", "g.svg", "notes.txt", ".hidden.raw"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.warns(PartswapWarning, match=r"3 files are not read as images: 2 \.heic, 1 \.svg, first .*e\.heic"):
        assert len(explainer.encode(tmp_path)) == 4
    explainer.encode([tmp_path])
    assert [note.kind for note in explainer.notes] == ["unread"]  # once


def test_transparent_images_are_put_on_white_and_it_is_said(birds, tmp_path):
    explainer = Explainer("aviary:vgg", auxiliary=None)
    seen = birds[0].convert("RGBA")
    seen.putalpha(255)
    explainer.encode(seen)
    assert explainer.notes == []  # nothing shows through
    hidden = Image.new("RGBA", (224, 224), (255, 0, 0, 0))
    hidden.paste(seen.crop((60, 60, 160, 160)), (60, 60))
    hidden.save(tmp_path / "cut-out.png")
    with pytest.warns(PartswapWarning, match=r"put on white, as .*cut-out\.png"):
        encoded = explainer.encode([tmp_path / "cut-out.png"])
    assert encoded.pictures[0].getpixel((5, 5)) == (255, 255, 255)
    assert encoded.pictures[0].getpixel((100, 100)) == birds[0].getpixel((100, 100))
    explainer.encode(hidden)
    assert [note.kind for note in explainer.notes] == ["transparent"]


def test_a_classifier_and_a_name_are_models(tmp_path):
    classifier = open_classifier("aviary:resnet")
    for model in (classifier, "aviary:resnet"):
        explainer = Explainer(model)
        assert explainer.class_names == NAMES
        assert explainer.preprocess == shipped.PREPROCESS
    with pytest.raises(PartswapError, match="weights"):
        Explainer(classifier.model, weights="default")


# -- a result that was saved ------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """Counterfactuals of photographs that the model sees a crop of, saved and read again."""
    sizes = [(300, 240), (260, 390), (224, 224), (500, 250)]
    paths = []
    for k, size in enumerate(sizes):
        bird = aviary.draw(4 if k == 0 else 5, k).image
        canvas = Image.new("RGB", size, "white")
        canvas.paste(bird, ((size[0] - 224) // 2, (size[1] - 224) // 2))
        canvas.save(tmp_path / f"{k}.png")
        paths.append(tmp_path / f"{k}.png")
    explainer = Explainer("aviary:vgg", preprocess=Preprocess(224, 240, (0.45,) * 3, (0.25,) * 3))
    cf = explainer.explain(paths[0], paths[1:], 5, keep_misclassified=True)
    return explainer, cf, type(cf).load(cf.save(tmp_path / "why.json")), paths


def test_originals_are_cropped_as_the_model_saw_them(saved):
    _, cf, read, paths = saved
    again = read.with_images(Image.open(paths[0]), [str(path) for path in paths[1:]])
    for picture, expected in zip(
        (again.pictures.query, *again.pictures.distractors), (cf.pictures.query, *cf.pictures.distractors), strict=True
    ):
        assert picture.size == expected.size == (224, 224)
        assert np.abs(np.asarray(picture, float) - np.asarray(expected, float)).mean() < 4
    assert read.with_files().pictures.query.size == (224, 224)
    with pytest.raises(ShapeError, match=r"600 x 480 pixels is not what the model saw \(224 x 224\)"):
        read.with_images(Image.new("RGB", (600, 480)), paths[1:])


def test_files_that_moved_are_found_beside_the_result(saved, tmp_path):
    _, _, read, paths = saved
    (tmp_path / "moved").mkdir()
    for path in paths:
        path.rename(tmp_path / "moved" / path.name)
    with pytest.raises(ImageError, match="not there any more"):
        read.with_files()
    assert read.with_files(tmp_path / "moved").pictures is not None


def test_a_result_without_geometry_takes_only_pictures_of_the_grid_s_proportions():
    cf = Counterfactual(3, 5, GridShape(7, 7), 1, (Edit(10, 20, 0),), Step(0.1, 3), (Step(0.8, 5),), True)
    assert cf.with_images(Image.new("RGB", (50, 50)), [Image.new("RGB", (99, 99))]).pictures is not None
    with pytest.raises(ShapeError, match=r"not what the model saw \(a grid of 7 x 7 cells\)"):
        cf.with_images(Image.new("RGB", (50, 70)), [Image.new("RGB", (99, 99))])


def test_verification_just_works(saved):
    explainer, cf, read, paths = saved
    for form in (cf, read):
        assert explainer.verify(form)
        assert form.verify(explainer)
        assert form.verify(explainer.cut)
        assert form.verify(explainer.model)
        assert form.verify(shipped.load("vgg"), paths[0], paths[1:])
    assert not explainer.verify(cf, paths[1], paths[1:])  # another query
    other = shipped.load("vgg")
    with torch.no_grad():
        next(other.parameters()).add_(0.1)
    assert not cf.verify(other)
    with pytest.raises(SettingError, match="no model"):
        cf.verify("vgg")
    with pytest.raises(SettingError, match="layer"):
        Explainer("aviary:vgg", "features.3").verify(cf)


def test_what_a_function_prepared_is_verified_while_the_function_is_known(saved, tmp_path):
    paths = saved[3]
    explainer = Explainer("aviary:vgg", preprocess=lambda image: shipped.PREPROCESS(image)[0])
    cf = explainer.explain(paths[0], paths[1:], 5)
    assert explainer.preprocess.key() != shipped.PREPROCESS.key()
    assert explainer.verify(cf)
    assert cf.verify(shipped.load("vgg"))
    read = Counterfactual.load(cf.save(tmp_path / "why.json"))  # a file cannot hold a function
    assert explainer.verify(read)
    with pytest.raises(SettingError, match=r"prepared by .*attribute preprocess, or pass the explainer"):
        read.verify(shipped.load("vgg"))
    model = shipped.load("vgg")
    model.preprocess = lambda image: shipped.PREPROCESS(image)[0]  # the model tells it itself
    assert read.verify(model)


# -- what it says -----------------------------------------------------------------------------------------------------


def written(figure):
    return " ".join(text.get_text() for text in figure.texts)


def test_a_figure_says_what_the_model_says_before_and_after(explainer, birds):
    cf = explainer.explain(*birds, 5)
    trace = cf.plot(kind="trace")
    assert (
        f"the model says Olive Warbler ({percent(cf.before.original_class_probability)}), then says Spectacled Warbler"
        in written(trace)
    )
    assert trace.texts[-1].get_text() == f"{percent(cf.probability)}, flips"
    stuck = explainer.explain(*birds, 5, method=changed(explainer.method, max_edits=1))
    if not stuck.flipped:
        assert "still says" in written(stuck.plot(kind="trace"))
    unflipped = replace(cf, flipped=False, trace=tuple(replace(s, predicted=cf.query_class) for s in cf.trace))
    still = percent(unflipped.trace[-1].original_class_probability)
    assert f"still says Olive Warbler ({still})" in written(unflipped.plot(kind="trace"))
    assert "the model still says Olive Warbler" in str(unflipped)
    third = replace(cf, flipped=False, trace=tuple(replace(s, predicted=7) for s in cf.trace))
    assert "the model says class 7" in str(third)
    assert "not reached" in str(unflipped)
    assert all(
        step.original_class_probability is not None and 0 <= step.original_class_probability <= 1
        for step in (cf.before, *cf.trace)
    )


@pytest.mark.parametrize(
    "names",
    [
        ["Yellow-headed Blackbird", "Summer Tanager"],
        ["Staffordshire bullterrier, Staffordshire bull terrier", "American Staffordshire terrier, pit bull terrier"],
        ["x" * 45, "a word " * 40],
    ],
)
def test_what_is_written_on_a_figure_is_not_cut_off(explainer, birds, names):
    cf = explainer.explain(*birds, 5)
    files = [f"American_Three_Toed_Woodpecker_0012_17985{k}.jpg" for k in range(cf.distractors)]
    called = dict(zip((cf.query_class, cf.target), names, strict=True))
    figure = replace(cf, source=replace(cf.source, class_names=called, distractors=files)).plot(kind="trace")
    figure.draw_without_rendering()
    edges = figure.bbox
    boxes = [text.get_window_extent() for text in figure.texts]
    for box in boxes:
        assert edges.x0 <= box.x0
        assert box.x1 <= edges.x1
        assert edges.y0 <= box.y0
        assert box.y1 <= edges.y1
    letters = [box.shrunk(0.98, 0.7) for box in boxes]  # boxes of lines are higher than their letters
    assert not any(form.overlaps(other) for form, other in itertools.combinations(letters, 2))
    for axis in figure.axes:  # and pictures are not squeezed by it
        if axis.images:
            assert axis.get_position().width * figure.get_size_inches()[0] > 2


def test_figures_have_formats_that_are_checked(explainer, birds, tmp_path):
    cf = explainer.explain(*birds, 5)
    for suffix in ("png", "svg", "pdf", "html", "jpg"):
        cf.plot(tmp_path / f"why.{suffix}")
        assert (tmp_path / f"why.{suffix}").stat().st_size > 5_000
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")
    for wrong in ("why", "why.docx"):
        with pytest.raises(SettingError, match="no suffix of a figure"):
            cf.plot(tmp_path / wrong)


def test_small_probabilities_are_not_printed_as_zero(explainer, birds):
    cf = explainer.explain(*birds, 5)
    small = replace(cf, before=replace(cf.before, target_probability=0.0004))
    assert "0.0004 ->" in str(small)
    assert "the model now says Spectacled Warbler" in str(small)


def test_a_method_is_not_called_what_it_is_not(birds):
    bare = Explainer("aviary:vgg", auxiliary="none")
    with pytest.raises(SettingError, match="no auxiliary to say what is alike"):
        bare.explain(*birds, 5, method="paper")
    assert bare.explain(*birds, 5, method=METHODS.get("paper")(lam=0)).method == "paper"
    cf = bare.explain(*birds, 5)
    assert cf.title == "partswap without its semantic term (no auxiliary)"
    assert "without its semantic term" in cf._repr_html_()
    assert Explainer("aviary:vgg", auxiliary="aviary").explain(*birds, 5).title == "partswap"


def test_a_target_out_of_reach_ends_early():
    """The class token stays the query's, so cells may matter too little to reach the target."""
    torch.manual_seed(0)
    model = _vision.timm().create_model("vit_tiny_patch16_224", img_size=96, num_classes=5, depth=3).eval()
    model.head.bias.data[3] -= 20
    explainer = Explainer(model, "blocks.1", preprocess=Preprocess(96), auxiliary="none")
    images = [aviary.draw(k, 0).image for k in range(4)]
    cf = explainer.explain(images[0], images[1:], 3, keep_misclassified=True)
    assert (len(cf), cf.flipped, cf.settings["patience"]) == (8, False, 8)
    predicted = " ".join(str(cf).split())
    assert "even in place of all cells" in predicted
    assert predicted.endswith(
        "Cut at an earlier layer: the class token, which stays the query's, has read less of it there."
    )
    longer = explainer.explain(images[0], images[1:], 3, keep_misclassified=True, method=METHODS.get("goyal")())
    assert (len(longer), longer.flipped) == (36, False)  # settings of one's own are not touched


@pytest.mark.parametrize("size", [(1, 1), (64, 64), (224, 225)])
def test_a_tensor_of_another_size_is_refused(birds, size):
    with pytest.raises(ShapeError, match="the model was cut for"):
        Explainer("aviary:vgg").explain(torch.zeros(3, *size), birds[1], 5)
