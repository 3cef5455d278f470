"""Attribute classifiers: what becomes a word, how it is trained, and where it is used."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import trees
from partswap import Counterfactual, Explainer
from partswap.analysis.words import WordsEvaluation
from partswap.apps.report import collect_runs
from partswap.cli.main import app
from partswap.data.attribute_table import read_attributes
from partswap.data.base import Attributes, Meaning, open_dataset
from partswap.errors import DataError, FileFormatError, PartswapError, SettingError, ShapeError
from partswap.grid import GridShape
from partswap.models.auxiliaries import AuxiliaryChoice, load_auxiliary
from partswap.models.open import open_classifier
from partswap.runs.config import RunConfig
from partswap.runs.context import open_run_context
from partswap.runs.folder import read_run
from partswap.runs.run import run
from partswap.runs.tasks import explain_tasks, plan_tasks
from partswap.training.words import fit_attribute, held_out_precision, train_words
from partswap.words.parts import PartReader, load_named, open_parts, read_named, save_named
from partswap.words.vocabulary import vocabulary


@pytest.fixture(scope="module")
def birds():
    return [open_dataset("aviary", split=split, per_class=3) for split in ("train", "test")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("words")


@pytest.fixture(scope="module")
def words(birds, folder):
    """Words of the small residual network; parts are those that are annotated."""
    classifier = open_classifier("aviary:resnet")
    return train_words(*birds, classifier, folder / "words", layer="layer4", cache=folder / "cache")


# -- vocabulary -----------------------------------------------------------------------------------------------------


def table(**present):
    """Return attributes by name, "part kind value" with underscores, and which of three classes have them."""
    meanings = []
    for name in present:
        part, kind, value = name.split("_")
        meanings.append(Meaning(part if part != "whole" else None, f"{part} {kind}", value))
    return Attributes(list(present), np.array(list(present.values()), float).T, meanings)


def test_a_word_is_of_a_part_that_is_told_and_tells_classes_apart():
    found = vocabulary(
        table(wing_colour_red=[1, 0, 0], wing_colour_grey=[1, 1, 1], tail_shape_long=[0, 1, 1],
              whole_size_big=[1, 0, 0], wing_colour_blue=[0, 0, 0]),
        ["left wing", "right wing"],
    )  # fmt: skip
    assert found.names == ["wing_colour_red"]
    assert found.columns == [0]
    assert {left["name"]: left["why"] for left in found.left_out} == {
        "wing_colour_grey": "every class has it",
        "tail_shape_long": "of a part nobody tells",
        "whole_size_big": "of no part",
        "wing_colour_blue": "no class has it",
    }


def test_tables_without_words():
    with pytest.raises(SettingError, match="has no attributes"):
        vocabulary(None, ["wing"])
    with pytest.raises(SettingError, match=r"about a part that is told \(attributes: tail; told: wing\)"):
        vocabulary(table(tail_shape_long=[0, 1, 1]), ["wing"])
    with pytest.raises(SettingError, match="had by some classes and not by others"):
        vocabulary(table(wing_colour_red=[1, 1, 1]), ["wing"])


def test_the_aviary_tells_its_attributes(birds):
    attributes = birds[0].attributes()
    assert len(attributes.names) == len(set(attributes.names)) == len(attributes.meanings)
    red = attributes.names.index("crown_color::red")
    assert attributes.meanings[red] == Meaning("crown", "crown colour", "red")
    having = [birds[0].classes[k] for k in np.flatnonzero(attributes.share[:, red])]
    assert having == ["Ember-crowned Finch", "Barred Ember Finch"]
    for first, second in ((0, 1), (4, 7), (10, 30)):  # attributes and parts tell the same
        differing = attributes.share[first] != attributes.share[second]
        told = {meaning.part for meaning, differs in zip(attributes.meanings, differing, strict=True) if differs}
        assert told == birds[0].differing_parts(first, second)


def test_a_table_of_ones_own(tmp_path):
    root = trees.folder(tmp_path / "photos")
    classes = open_dataset("folder", root, "all").classes
    assert open_dataset("folder", root, "all").attributes() is None
    rows = ["class,attribute,value,part", f"{classes[0]},wing colour,blue,", f"{classes[0]},wing colour,white,"]
    rows += [f"{classes[1]},wing colour,blue,", f"{classes[1]},crest,pointed,crown", f"{classes[1]},size,small,"]
    trees.write_lines(root / "attributes.csv", rows)
    found = open_dataset("folder", root, "all").attributes()
    assert found.names == ["wing colour::blue", "wing colour::white", "crest::pointed", "size::small"]
    assert found.meanings[0] == Meaning("wing", "wing colour", "blue")
    assert found.meanings[2].part == "crown"
    assert found.meanings[3].part is None
    assert found.share[:2].tolist() == [[1, 1, 0, 0], [1, 0, 1, 1]]
    (root / "attributes.csv").rename(tmp_path / "mine.csv")
    other = open_dataset("folder", root, "all", attributes=str(tmp_path / "mine.csv"))
    assert other.attributes().names == found.names


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["class,attribute"], "has no column 'value'"),
        (["class,attribute,value"], "holds no attribute"),
        (["class,attribute,value", "Gul,wing colour,black"], "line 2 .* there is no class 'Gul'. Did you mean .*Gull"),
        (["class,attribute,value", "Gull,wing colour,"], "line 2 of .* is not complete"),
    ],
)
def test_broken_tables_of_ones_own(tmp_path, lines, problem):
    trees.write_lines(tmp_path / "a.csv", lines)
    with pytest.raises(DataError, match=problem):
        read_attributes(tmp_path / "a.csv", ["Gull", "Tern"])


# -- training -------------------------------------------------------------------------------------------------------


def test_an_attribute_is_a_direction():
    rng = np.random.default_rng(0)
    has = rng.random(400) < 0.1
    pooled = rng.normal(size=(400, 6)).astype(np.float32) + 5
    pooled[has, 2] += 3
    row, bias = fit_attribute(pooled, has)
    assert ((pooled @ row + bias > 0) == has).mean() > 0.85
    assert int(np.abs(row * pooled.std(0)).argmax()) == 2
    precision, low = held_out_precision(pooled @ row, has)
    assert has.mean() < low < precision
    _, low = held_out_precision(rng.normal(size=400), has)
    assert low < has.mean() + 0.1
    assert held_out_precision(pooled @ row, np.zeros(400, bool)) == (0.0, 0.0)


def test_words_are_trained_saved_and_kept(words, birds, folder):
    assert words.agreement is None
    assert len(words.attributes) > 80
    assert all(a["precision"] > a["chance"] for a in words.attributes)
    assert words.model.classes.shape == (40, 96)
    # The classes' weights are the classifier's own.
    assert torch.allclose(words.model.classes, open_classifier("aviary:resnet").model.fc.weight, atol=1e-4)
    again = train_words(*birds, open_classifier("aviary:resnet"), folder / "words", layer="layer4")
    assert again.attributes == words.attributes
    with pytest.raises(SettingError, match="a words model made otherwise"):
        train_words(*birds, open_classifier("aviary:resnet"), folder / "words", layer="layer3")


def test_an_attribute_no_better_than_chance_is_left_out(birds, tmp_path, folder, monkeypatch):
    attributes = birds[0].attributes()
    rng = np.random.default_rng(0)
    noise = (rng.random((40, 1)) < 0.5).astype(float)
    labels = birds[1].labels()

    class Confused(type(birds[1])):
        def labels(self):  # the held-out images are of other classes than they say
            return np.random.default_rng(1).permutation(labels)

    with_noise = Attributes(
        [*attributes.names[:3], "noise"], np.concatenate([attributes.share[:, :3], noise], 1),
        [*attributes.meanings[:3], Meaning("wing", "wing noise", "loud")],
    )  # fmt: skip
    confused = Confused("test", per_class=3)
    monkeypatch.setattr(type(birds[0]), "attributes", lambda self: with_noise)
    model = open_classifier("aviary:resnet")
    with pytest.raises(SettingError, match="none of 4 attributes can be told"):
        train_words(birds[0], confused, model, tmp_path / "w", layer="layer4", cache=folder / "cache")


def test_a_head_that_is_not_linear_needs_consent(birds, tmp_path, folder):
    model = open_classifier("aviary:vgg")
    with pytest.raises(SettingError, match="is not pooling and one linear layer"):
        train_words(*birds, model, tmp_path / "w", cache=folder / "cache")
    made = train_words(*birds, model, tmp_path / "w", fit_head=True, cache=folder / "cache")
    assert 0.6 < made.agreement <= 1


def test_other_classes_are_refused(birds, tmp_path):
    other = open_dataset("folder", trees.folder(tmp_path / "photos"), "all")
    with pytest.raises(SettingError, match="are not the 40 of the classifier"):
        train_words(other, other, open_classifier("aviary:resnet"), tmp_path / "w")


# -- use ------------------------------------------------------------------------------------------------------------


def test_annotated_parts_are_put_into_words(words, birds, folder):
    config = RunConfig(data="aviary", options={"per_class": 3}, model="aviary:resnet", layer="layer4",
                       auxiliary="aviary", precision="float32", cache=folder / "cache")  # fmt: skip
    bench = open_run_context(config)
    speaker = bench.explainer.words_writer(folder / "words")
    tasks = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=3).first(6).tasks
    judge = WordsEvaluation(bench, speaker)
    verdicts = [
        judge.verdict(*found)
        for found in explain_tasks(bench.explainer, bench.encodings, tasks, bench.explainer.method)
    ]
    stated = [v for v in verdicts if v.words.stated]
    assert stated
    # By hand: what is said of a class is in the table.
    attributes = bench.data.attributes()
    for task, verdict in zip(tasks, verdicts, strict=True):
        for change in verdict.words.stated:
            column = attributes.names.index(change.name)
            whose = task.target if change.change > 0 else bench.data.label(task.query)
            assert attributes.share[whose, column] or not verdict.true
        assert 0 < verdict.by_any_chance < 0.5
        assert verdict.located in (True, False)


def test_a_report_says_the_explanations_of_a_run_in_words(words, folder, tmp_path):
    config = RunConfig(data="aviary", options={"per_class": 3}, model="aviary:resnet", layer="layer4", queries=6,
                       auxiliary="aviary", distractors=3, cache=folder / "cache", out=tmp_path / "run")  # fmt: skip
    run(config)
    page = tmp_path / "page"
    told = CliRunner().invoke(app, ["report", str(config.out), "--words", str(folder / "words"), "--out", str(page)])
    assert told.exit_code == 0, told.output
    found = collect_runs([config.out], words=folder / "words").explanations
    bench = open_run_context(config)
    judge = WordsEvaluation(bench, bench.explainer.words_writer(folder / "words"))
    expected = [judge.verdict(*both).words for both in read_run(config.out).explained("partswap").values()]
    assert [one["words"] for one in found] == [{"text": w.sentence, "stated": bool(w.stated)} for w in expected]
    assert any(one["words"]["stated"] for one in found)
    assert "words" not in collect_runs([config.out]).explanations[0]
    run(config.with_(model="aviary:vgg", layer=None, out=tmp_path / "other"))
    with pytest.raises(SettingError, match="from another classifier"):
        collect_runs([tmp_path / "other"], words=folder / "words")


def test_explain_says_it_in_words(words, birds, folder, tmp_path):
    explainer = Explainer("aviary:resnet", "layer4", auxiliary="aviary")
    query, donors = birds[1][1], [birds[1][40 * k] for k in range(3)]  # an ember-crowned finch, and plain ones
    with pytest.raises(SettingError, match="nobody says which parts the cells show"):
        explainer.explain(query, donors, words=folder / "words")
    every = [frozenset({"crown"})] * 49
    cf = explainer.explain(query, donors, words=folder / "words", query_parts=every, distractor_parts=[every] * 3)
    assert "crown colour" in cf.words.sentence
    assert Counterfactual.load(cf.save(tmp_path / "why.json")).words == cf.words
    cf.plot(tmp_path / "why.png")
    assert (tmp_path / "why.png").stat().st_size > 10_000
    with pytest.raises(SettingError, match=r"learned at layer 'layer4', the model is cut at 'layer3'"):
        Explainer("aviary:resnet", "layer3", auxiliary=None).explain(query, donors, words=folder / "words")
    # A stage and its last block are one place.
    same = Explainer("aviary:resnet", "layer4.1", auxiliary=None)
    assert same.words_writer(folder / "words").model.layer == "layer4"


def test_half_written_words(folder, words, tmp_path):
    (tmp_path / "model.json").write_text((folder / "words" / "model.json").read_text())
    explainer = Explainer("aviary:resnet", "layer4", auxiliary=None)
    with pytest.raises(PartswapError, match=r"model\.safetensors"):
        explainer.words_writer(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(FileFormatError, match="not about a words model"):
        explainer.words_writer(str(tmp_path))


# -- parts of cells -------------------------------------------------------------------------------------------------


def test_channels_are_parts():
    reader = PartReader(load_auxiliary("aviary"), ["wing", "tail", "eye", "leg"])
    grids = torch.zeros(1, 4, 2, 2)
    grids[0, :, 0, 0] = torch.tensor([3.0, 1.0, 2.0, 0.0])
    assert reader.read(grids, GridShape(2, 2))[0][0] == ("wing", "eye", "tail")
    assert reader.read(grids, GridShape(1, 1))[0][0] == ("wing", "eye", "tail")
    assert reader.names == {"wing", "tail", "eye", "leg"}


def test_clusters_with_names(tmp_path):
    centroids = torch.eye(3)
    path = tmp_path / "names.json"
    save_named(path, AuxiliaryChoice.parse("aviary"), centroids, ["wing", None, "wing"])
    choice, found, names = read_named(path)
    assert (str(choice), names) == ("aviary", ["wing", None, "wing"])
    assert torch.equal(found, centroids)
    reader = PartReader(load_auxiliary("aviary"), names, centroids)
    grids = torch.zeros(1, 3, 1, 3)
    grids[0, :, 0, 0], grids[0, :, 0, 1] = torch.tensor([1.0, 0.5, 0]), torch.tensor([0.1, 1.0, 0])
    assert reader.read(grids, GridShape(1, 3))[0][:2] == [("wing",), ()]  # the second is background
    with pytest.raises(ShapeError, match="clusters of 3 channels, and an auxiliary of 64"):
        load_named(path).of_images([open_dataset("aviary", per_class=1).image(0)], GridShape(7, 7))
    save_named(path, choice, centroids, [None] * 3)
    with pytest.raises(SettingError, match=r"no cluster .* has a name"):
        open_parts(path)
    for content in ("{", "{}", json.dumps({"schema": "partswap.named_clusters", "version": 9})):
        path.write_text(content)
        with pytest.raises(FileFormatError, match="does not hold named clusters"):
            open_parts(path)
    with pytest.raises(SettingError, match="neither a parts detector nor named clusters"):
        open_parts(tmp_path / "nothing")


def test_clusters_are_named_on_the_command_line(tmp_path):
    out = tmp_path / "names.json"
    command = ["parts", "name", "--data", "aviary", "--option", "per_class=1", "--split", "test", "--clusters", "5"]
    command += ["--auxiliary", "aviary", "--cache", str(tmp_path / "cache"), "--out", str(out)]
    asked = CliRunner().invoke(app, command, input="wing\n\ntail\n\nwing\n", catch_exceptions=False)
    assert asked.exit_code == 0
    assert read_named(out)[2] == ["wing", None, "tail", None, "wing"]
    assert out.with_suffix(".png").stat().st_size > 20_000
    told = CliRunner().invoke(app, [*command, "--name", "1=back", "--name", "2=none"], catch_exceptions=False)
    assert "3 of 5 clusters have a name" in told.output
    assert read_named(out)[2] == ["wing", "back", None, None, "wing"]
    assert open_parts(out).names == {"wing", "back"}
    for wrong, problem in (
        (["--name", "9=x"], "there is no cluster 9"),
        (["--clusters", "4"], "names of other clusters"),
    ):
        refused = CliRunner().invoke(app, [*command, "--name", "0=a", *wrong])
        assert problem in str(refused.exception)
    refused = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "names.txt")])
    assert "no name of a JSON file" in str(refused.exception)


def test_words_on_the_command_line(birds, tmp_path, folder):
    """A detector, words, an explanation in words: the whole way a user goes."""
    data = ["--data", "aviary", "--option", "per_class=3", "--cache", str(folder / "cache"), "--precision", "float32"]
    runner = CliRunner()
    parts, words = tmp_path / "parts", tmp_path / "words"
    train = ["train", "parts", *data, "--arch", "aviary:resnet", "--layer", "layer4", "--freeze", "layer4.0"]
    made = runner.invoke(app, [*train, "--views", "1", "--epochs", "4", "--lr", "0.05", "--out", str(parts)])
    assert made.exit_code == 0, made.output
    made = runner.invoke(
        app, ["train", "words", *data, "--model", "aviary:resnet", "--parts", str(parts), "--out", str(words)]
    )
    assert made.exit_code == 0, made.output
    assert "attributes, mean average precision" in made.output
    for k in (1, 0, 40, 80):
        birds[1].image(k).save(tmp_path / f"{k}.png")
    images = [str(tmp_path / f"{k}.png") for k in (1, 0, 40, 80)]
    told = runner.invoke(
        app, ["explain", *images, "--model", "aviary:resnet", "--words", str(words), "--save", str(tmp_path / "w.json")]
    )
    assert told.exit_code == 0, told.output
    assert "cut at layer4.1, where the words were learned" in told.output
    cf = Counterfactual.load(tmp_path / "w.json")
    assert cf.words.sentence
    assert cf.words.query_parts
