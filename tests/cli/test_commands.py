"""Commands, on a few drawn birds."""

import json
import shutil
import subprocess
import sys
from functools import partial

import pytest
import yaml
from typer.testing import CliRunner

import partswap
import trees
from partswap.cli.main import app, main
from partswap.runs.config import RunConfig
from partswap.runs.run import Run, plan_run
from partswap.runs.workbench import open_workbench
from partswap.studies import demo
from partswap.studies.tables import skipped_text

BIRDS = ["--data", "aviary", "--model", "aviary:vgg", "--precision", "float32"]


def invoke(*words, fails=False):
    """Return what a command prints."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=fails)
    assert result.exit_code == (1 if fails else 0), result.output
    return result.output


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


# -- one image ------------------------------------------------------------------------------------------------------


def test_files_are_explained_and_shown(tmp_path):
    for species, seed, name in ((4, 7, "query"), (5, 0, "donors/a"), (5, 1, "donors/b")):
        path = tmp_path / f"{name}.png"
        path.parent.mkdir(exist_ok=True)
        partswap.aviary.draw(species, seed).image.save(path)
    options = ["--model", "aviary:vgg", "--auxiliary", "aviary", "--target", 5, "--keep-misclassified"]
    options += ["--save", tmp_path / "why.json", "--plot", tmp_path / "why.png"]
    said = invoke("explain", tmp_path / "query.png", tmp_path / "donors", *options)
    assert "Olive Warbler -> Spectacled Warbler" in said
    assert (tmp_path / "why.png").stat().st_size > 10_000
    assert "Counterfactual" in invoke("show", tmp_path / "why.json")


def test_layers_are_listed():
    assert "features" in invoke("layers", "aviary:vgg")
    assert "layer4.0" in invoke("layers", "resnet50")


def test_birds_are_drawn(tmp_path):
    assert "drew" in invoke("aviary", "sheet", tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").exists()


def test_the_demo_writes_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "run_demo", partial(demo.run_demo, per_class=2))  # fewer birds to choose from
    said = invoke("demo", "--queries", 2, "--distractors", 2, "--out", tmp_path)
    assert "2 birds, shipped vgg classifier" in said
    assert (tmp_path / "report.html").stat().st_size > 10_000


# -- data sets ------------------------------------------------------------------------------------------------------


def test_features_are_computed_ahead(cache):
    said = invoke("encode", *BIRDS, "--option", "per_class=2", "--auxiliary", "aviary", "--cache", cache)
    assert "80 images of aviary test" in said
    assert list(cache.iterdir())


def test_tuning_chooses_a_pair(cache, tmp_path):
    command = ["tune", *BIRDS, "--auxiliary", "aviary", "--queries", 4, "--split", "test", "--distractors", 2]
    command += ["--lam", 0, "--lam", 0.4, "--tau", 0.1, "--option", "per_class=2", "--cache", cache]
    assert "tau = 0.1; plot:" in invoke(*command, "--out", tmp_path)
    record = json.loads((tmp_path / "tune.json").read_text())
    assert len(record["points"]) == 2
    assert record["best"] in record["points"]
    assert (tmp_path / "tune.png").stat().st_size > 10_000


@pytest.mark.parametrize(("check", "extra"), [("sanity", ["--which", "head"]), ("stability", ["--pixels", "2"])])
def test_explanations_are_checked(check, extra, cache, tmp_path):
    command = ["check", check, *BIRDS, "--auxiliary", "aviary", "--queries", 2, "--distractors", 1, *extra]
    assert f"{check}.csv" in invoke(*command, "--option", "per_class=2", "--cache", cache, "--out", tmp_path)
    rows = (tmp_path / f"{check}.csv").read_text().splitlines()
    assert len(rows) == 2
    assert rows[1].split(",")[0] == extra[1]


def test_a_run_goes_on_with_what_is_there(whole_run, tmp_path):
    path, out = tmp_path / "run.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump({k: v for k, v in whole_run.record().items() if k != "out"}))
    shutil.copytree(whole_run.out, out)
    for gone in (out / "metrics.json", *sorted(out.glob("edits/*/*.parquet"))[5:8]):
        gone.unlink()
    said = invoke("run", path, "--out", out)
    assert "Same-KP all" in said
    assert "misclassified" in said
    made, again = (sorted(p for p in folder.rglob("edits/**/*") if p.is_file()) for folder in (whole_run.out, out))
    assert [p.relative_to(whole_run.out) for p in made] == [p.relative_to(out) for p in again]
    assert [p.read_bytes() for p in made] == [p.read_bytes() for p in again]


def test_flags_of_a_run_win_over_its_file(tmp_path):
    (tmp_path / "run.yaml").write_text("data: aviary\nmodel: aviary:vgg\nseed: 3\n")
    command = ["run", tmp_path / "run.yaml", "--out", tmp_path / "out", "--device", "tpu"]
    result = CliRunner().invoke(app, [str(word) for word in command])
    assert str(result.exception) == "device is 'tpu'. Did you mean 'cpu'?"
    assert not (tmp_path / "out").exists()


def test_commands_say_how_many_images_they_left_out(tmp_path):
    birds = tmp_path / "birds"
    assert "40 birds in" in invoke("aviary", "save", birds, "--per-class", 1)
    trees.truncate(min(birds.glob("*/*.png")))
    data = ["--data", "folder", "--path", birds, "--option", "skip_bad=true"]
    explained = [*data, "--split", "all", "--model", "aviary:vgg", "--cache", tmp_path / "cache"]
    trained = [*data, "--train-split", "all", "--test-split", "all", "--out", tmp_path / "out", "--arch", "none"]
    line = "all: 1 of 40 images left out, unreadable"
    assert line in invoke("encode", *explained)
    # The rest end with an error after that: no keypoints, no such network.
    assert line in invoke("tune", *explained, "--auxiliary", "classifier", fails=True)
    for kind in ("classifier", "parts"):
        assert line in invoke("train", kind, *trained, fails=True)
    without = [str(word).replace("true", "false") for word in trained]
    assert "left out" not in invoke("train", "classifier", *without, fails=True)
    config = RunConfig(
        data="folder", path=birds, split="all", options={"skip_bad": True}, model="aviary:vgg",
        cache=tmp_path / "cache", out=tmp_path / "run", distractors=1,
    )  # fmt: skip
    _, skipped = plan_run(config, open_workbench(config))
    assert skipped["unreadable_images"] == 1
    assert "1 more cannot be read" in skipped_text(Run(tmp_path, {"skipped": skipped, "images": 39}))


# -- what goes wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("show {}/none.json", "there is no file"),
        ("show {}/[/x].json", "[/x].json"),
        ("explain a.jpg b.jpg --model resnet50", "resnet50 has no weights. Pass --weights"),
        ("explain a.jpg {}/none --model aviary:vgg", "there is no image or folder"),
        ("explain a.jpg {} --model aviary:vgg", "Folders are searched for"),
        ("explain a.jpg b.jpg --model aviary:vgg --auxiliary-layer x", "Name it with --auxiliary"),
        ("aviary train vgk", "Did you mean 'vgg'"),
        ("aviary sheet {}/no/sheet.png", "No such file or directory"),
        ("run", "data is missing. Write 'data: ...' into the file, or pass --data."),
        ("run --data avairy --model x", "Did you mean 'aviary'"),
        ("run {}/none.yaml", "there is no file"),
        ("encode --data aviary --model aviary:vgg --precision half", "precision is 'half'"),
        ("encode --data aviary --model aviary:vgg --option per_clas=1", "Did you mean 'per_class'"),
        ("check sanity --data aviary --model aviary:vgg --distractors 0", "distractors is 0. Use 1 or more."),
        ("paper sota --data aviary --model aviary:vgg --seed -1", "seed is -1. Use 0 or more."),
        ("tune --data aviary --model aviary:vgg --auxiliary aviary --queries 0", "queries is 0. Use 1 or more."),
    ],
)
def test_an_error_is_one_line_with_the_fix(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["partswap", *words.format(tmp_path).split()])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert message in said


def test_the_package_runs_as_a_module(tmp_path):
    command = [sys.executable, "-m", "partswap", "show", str(tmp_path / "none.json")]
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: there is no file")
    assert "Traceback" not in failed.stderr


def test_importing_partswap_does_not_import_torch():
    code = "import sys, partswap; assert 'torch' not in sys.modules; partswap.METRICS; print(partswap.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == partswap.__version__
