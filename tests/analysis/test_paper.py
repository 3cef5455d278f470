"""Every table and figure of the paper, on a few drawn birds."""

import csv
import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from partswap.analysis.paper import temperature
from partswap.analysis.paper.auxiliary import picture_name
from partswap.analysis.paper.context import TABLES, TableContext
from partswap.analysis.tune import Point
from partswap.cli.main import app
from partswap.data.base import open_dataset
from partswap.errors import FileFormatError, SettingError
from partswap.models import fingerprint
from partswap.models.auxiliaries import AuxiliaryChoice
from partswap.models.open import open_classifier
from partswap.runs.config import RunConfig
from partswap.training.words import train_words
from partswap.utils.estimates import Estimate
from partswap.utils.tables import ResultTable

#: How many rows each table has on the aviary (two places to cut).
ROWS = {
    "sota": 7,
    "components": 6,
    "auxiliary": 2,
    "temperature": 4,
    "selection": 6,
    "foreground": 3,
    "hard-soft": 4,
    "prefilter": 6,
    "layers": 4,
    "distractors": 4,
    "cost": 10,
    "language": 7,
    "pixels": 6,
}
FIGURES = {"temperature": ["pareto", "temperature"], "distractors": ["distractors"], "auxiliary": ["clusters-aviary"]}


pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("paper")


def words_of(folder, cache):
    """Return the folder of attribute classifiers of the small network; parts are those that are annotated."""
    birds = [open_dataset("aviary", split=split, per_class=3) for split in ("train", "test")]
    train_words(*birds, open_classifier("aviary:vgg"), folder / "words", fit_head=True, cache=cache)
    return folder / "words"


def test_every_table_is_tested():
    assert set(TABLES.names()) == set(ROWS)


@pytest.mark.parametrize("name", TABLES.names())
def test_a_table_is_printed_and_saved(name, folder, aviary_cache, monkeypatch):
    monkeypatch.setattr(temperature, "LAMBDAS", (0.0, 0.4))
    monkeypatch.setattr(temperature, "TAUS", (0.1,))
    command = ["paper", name, "--data", "aviary", "--model", "aviary:vgg", "--option", "per_class=3", "--workers", "1"]
    command += ["--auxiliary", "aviary", "--auxiliary", "classifier", "--queries", "2", "--distractors", "2"]
    command += [
        "--precision",
        "float32",
        "--cache",
        str(aviary_cache),
        "--out",
        str(folder),
        "--runs",
        str(folder / "r"),
    ]
    if name == "language":
        command += ["--words", str(words_of(folder, aviary_cache))]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = list(csv.reader((folder / f"{name}.csv").read_text().splitlines()))
    assert len(rows) == 1 + ROWS[name]
    assert (folder / f"{name}.md").read_text().count("\n| ") >= ROWS[name] + 1
    if name not in ("auxiliary", "cost"):
        assert "2 images drawn from the 1" in (folder / f"{name}.md").read_text()  # hundred and some that are right
    for figure in FIGURES.get(name, ()):
        assert (folder / f"{figure}.png").stat().st_size > 5_000
        assert (folder / f"{figure}.svg").read_text().startswith("<?xml")
    # The paper's numbers are for other birds.
    assert not any("/" in word or word in ("318.8", "59.6") for row in rows[1:] for word in row[-1:])


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("aviary", "clusters-aviary"),
        ("timm:resnet18@layer3+layer4", "clusters-timm-resnet18-layer3+layer4"),
        ("../out/my aux", "clusters-..-out-my-aux"),
        ("/somewhere/aux", "clusters-somewhere-aux"),
    ],
)
def test_a_picture_of_clusters_is_a_file_here(told, name):
    assert picture_name(AuxiliaryChoice.parse(told)).replace("--", "-") == name


def test_a_table_about_the_semantic_term_needs_an_auxiliary(tmp_path):
    command = ["paper", "sota", "--data", "aviary", "--model", "aviary:vgg", "--option", "per_class=1"]
    refused = CliRunner().invoke(app, [*command, "--out", str(tmp_path), "--auxiliary", "none"])
    assert isinstance(refused.exception, SettingError)
    assert str(refused.exception) == "the table sota needs an auxiliary. Name one with auxiliary."
    assert not list(tmp_path.iterdir())  # before any row was made


def test_without_a_word_a_table_takes_the_best_auxiliary_and_names_it(tmp_path):
    command = ["paper", "auxiliary", "--data", "aviary", "--model", "aviary:vgg", "--option", "per_class=3"]
    command += ["--queries", "2", "--distractors", "1", "--workers", "1", "--precision", "float32"]
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path), "--cache", str(tmp_path / "cache")])
    assert result.exit_code == 0, result.output
    assert "note: auxiliary: aviary, trained on these birds, without labels." in result.output
    rows = list(csv.reader((tmp_path / "auxiliary.csv").read_text().splitlines()))
    assert [row[0] for row in rows[1:]] == ["aviary"]


def test_the_numbers_of_a_table_are_those_of_its_runs(folder):
    made = {}
    for path in (folder / "r").glob("*-*/metrics.json"):
        settings = json.loads((path.parent / "run.json").read_text())["settings"]
        usual = settings["distractors"] == 2 and settings["layer"] is None and not any(settings["settings"].values())
        usual = usual and not settings.get("pixel")
        made.update(json.loads(path.read_text()) if usual else {})
    assert set(made) >= {"goyal", "partswap"}
    with (folder / "sota.csv").open() as file:
        rows = {(row[""], row["method"]): row for row in csv.DictReader(file)}
    for method, title in (("goyal", "Goyal et al., one distractor"), ("partswap", "partswap (ours)")):
        for which, place in (("single", "single edit"), ("all", "all edits")):
            for metric, column in (("near_kp", "Near-KP"), ("same_kp", "Same-KP")):
                assert float(rows[place, title][column]) == pytest.approx(100 * made[method][metric][which])
        assert float(rows["all edits", title]["#Edits"]) == pytest.approx(made[method]["edits"]["all"])


def test_weights_are_hashed_once_for_all_rows_of_a_table(tmp_path, monkeypatch):
    hashed, compute = [], fingerprint._hash
    monkeypatch.setattr(fingerprint, "_hash", lambda text, tensors: hashed.append(text) or compute(text, tensors))
    settings = {"queries": 1, "distractors": 1, "options": {"per_class": 1}, "workers": 1, "cache": tmp_path / "cache"}
    config = RunConfig(data="aviary", model="aviary:vgg", auxiliary="aviary", precision="float32", **settings)
    table = TableContext(config, tmp_path / "runs")
    for method in ("goyal", "paper", "partswap"):
        table.run(method)
    assert len(hashed) == 4  # the classifier, the two parts it is cut into, the auxiliary


def test_published_numbers_stand_beside_the_same_data_and_network_only(tmp_path):
    def lab(data, architecture):
        made = TableContext(RunConfig(data=data, path=tmp_path, model="x"), tmp_path)
        made.__dict__["bench"] = SimpleNamespace(classifier=SimpleNamespace(architecture=architecture))
        return made

    assert lab("cub", "vgg16").comparable
    assert not lab("aviary", "aviary:vgg").comparable
    assert not lab("cub", "resnet50").comparable


def test_a_point_is_dominated_by_one_that_is_no_worse():
    def point(same, edits, flipped=1.0):
        return Point(0, 0, same, 0, edits, flipped)

    theirs = [point(0.2, 4), point(0.4, 8)]
    assert temperature.dominated(theirs, [point(0.3, 4)]) == (1, 2)
    assert temperature.dominated(theirs, [point(0.4, 4)]) == (2, 2)
    assert temperature.dominated(theirs, [point(0.4, 4, 0.9)]) == (0, 2)


def test_intervals_are_shown_and_kept_out_of_csv():
    table = ResultTable("t", ["a", "b"], [["x", Estimate(20.0, (18.0, 24.0))], ["y", None]])
    assert "20.0 ±3.0" in table.markdown()
    assert table.csv() == "a,b\nx,20.0\ny,\n"


def test_a_method_stands_beside_itself_with_tuned_settings(folder, tmp_path, aviary_cache):
    chosen = {"method": "paper", "best": {"lam": 0.1, "tau": 0.3, "edits": 3.0}}
    (tmp_path / "tune.json").write_text(json.dumps(chosen))
    command = [
        "paper",
        "sota",
        "--data",
        "aviary",
        "--model",
        "aviary:vgg",
        "--option",
        "per_class=3",
        "--workers",
        "1",
    ]
    command += ["--auxiliary", "aviary", "--queries", "2", "--distractors", "2", "--precision", "float32"]
    command += ["--cache", str(aviary_cache), "--out", str(tmp_path), "--runs", str(folder / "r")]
    CliRunner().invoke(app, [*command, "--tuned", str(tmp_path / "tune.json")], catch_exceptions=False)
    titles = [row[1] for row in csv.reader((tmp_path / "sota.csv").open())]
    assert titles.count("Vandenhende et al., k = 10 %, tuned: lam = 0.1, tau = 0.3") == 2
    assert titles.count("Vandenhende et al., k = 10 %") == 2
    (tmp_path / "tune.json").write_text("{}")
    with pytest.raises(FileFormatError, match="not what partswap tune wrote"):
        CliRunner().invoke(app, [*command, "--tuned", str(tmp_path / "tune.json")], catch_exceptions=False)
