"""Commands, on a few drawn birds."""

import json
import re
import shutil
import subprocess
import sys
from functools import partial

import pytest
import yaml
from typer.testing import CliRunner

import partswap
import trees
from command_line import COMMANDS
from partswap.analysis import demo
from partswap.analysis.sanity import Randomised, sanity_verdict
from partswap.analysis.tables import skipped_text
from partswap.cli import options
from partswap.cli.main import app, main
from partswap.errors import PartswapError
from partswap.models.precision import devices
from partswap.runs.config import RunConfig
from partswap.runs.context import open_run_context
from partswap.runs.run import Run, plan_run
from partswap.utils.estimates import Estimate
from partswap.utils.terminal import wrapped

BIRDS = ["--data", "aviary", "--model", "aviary:vgg", "--precision", "float32"]


def invoke(*words, fails=False):
    """Return what a command prints."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=fails)
    assert result.exit_code == (1 if fails else 0), result.output
    return result.output


@pytest.fixture
def failing(monkeypatch, capsys):
    """Return what a command that fails prints as a user sees it: an error is one line, and no traceback."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["partswap", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert ended.value.code == 1, printed
        assert "Traceback" not in printed.err
        return printed.out + printed.err

    return run


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
    output = invoke("explain", tmp_path / "query.png", tmp_path / "donors", *options)
    assert "Olive Warbler -> Spectacled Warbler" in output
    assert (tmp_path / "why.png").stat().st_size > 10_000
    assert "Counterfactual" in invoke("show", tmp_path / "why.json")


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """Some birds as files: two queries of one species, three distractors of another."""
    folder = tmp_path_factory.mktemp("birds")
    for species, seed, name in ((4, 7, "q/one"), (4, 8, "q/two"), (5, 0, "d/a"), (5, 1, "d/b"), (5, 2, "d/c")):
        (folder / name).parent.mkdir(exist_ok=True)
        partswap.aviary.draw(species, seed).image.save(folder / f"{name}.png")
    return folder


VGG = ["--model", "aviary:vgg"]


def test_classes_have_names_everywhere(birds, tmp_path):
    output = invoke("explain", birds / "q/one.png", birds / "d", *VGG, "--target", "spectacled_warbler")
    assert output == invoke("explain", birds / "q/one.png", birds / "d", *VGG, "--target", 5)
    assert "a.png" in output or "b.png" in output or "c.png" in output  # distractors by file name
    chosen = invoke("explain", birds / "q/one.png", birds / "d", *VGG)
    assert re.search(r"target: Spectacled Warbler, what \d of 3 distractors are predicted as", chosen)
    assert "4  Olive Warbler" in invoke("classes", "aviary:vgg", "--find", "olive")
    assert "0  tench" in invoke("classes", "resnet18")
    (tmp_path / "names.txt").write_text("\n".join(f"bird {k}" for k in range(40)))
    assert "bird 4 -> bird 5" in invoke(
        "explain", birds / "q/one.png", birds / "d", *VGG, "--target", "bird 5", "--classes", tmp_path / "names.txt"
    )


def test_why_an_image_is_wrong(birds):
    output = invoke("explain", birds / "q/one.png", birds / "d", *VGG, "--label", "Spectacled Warbler")
    assert "target: Spectacled Warbler, the true class" in output
    assert "the model is right" not in output
    right = invoke("explain", birds / "q/one.png", birds / "d", *VGG, "--label", "Olive Warbler")
    assert "note: the model is right, this is Olive Warbler" in right


def test_distractors_that_are_left_out_are_counted(birds):
    words = ["explain", birds / "q/one.png", birds / "d", birds / "q/one.png", *VGG, "--target", 5]
    output = invoke(*words)
    left = re.search(
        r"note: (\d) of 4 distractors are left out, the model does not call them Spectacled Warbler", output
    )
    assert left is not None
    assert int(left[1]) >= 1
    assert "left out" not in invoke(*words, "--keep-misclassified")
    output = invoke(*words, "--method", "goyal")
    assert "note: goyal takes regions from one image: the first that will do of 4." in output
    assert "left out" not in output


def test_several_images_are_explained_at_once(birds, tmp_path):
    words = ["explain", birds / "q", birds / "d", *VGG, "--target", 5, "--keep-misclassified"]
    output = invoke(*words, "--save", tmp_path / "out", "--plot", tmp_path / "out")
    assert output.count("Counterfactual:") == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one.json", "one.png", "two.json", "two.png"]
    more = ["explain", birds / "q/one.png", birds / "d", "--query", birds / "q/two.png", *VGG, "--target", 5]
    assert invoke(*more, "--keep-misclassified").count("Counterfactual:") == 2


def test_an_image_that_cannot_be_explained_does_not_stop_the_others(birds, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    words = ["explain", tmp_path / "broken.png", birds / "d", "--query", birds / "q/one.png", *VGG, "--target", 5]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert "not explained:" in result.output
    assert "broken.png cannot be read as an image" in result.output
    assert "Counterfactual: Olive Warbler -> Spectacled Warbler" in result.output
    assert "1 of 2 images could not be explained" in str(result.exception)


def test_settings_of_one_explanation(birds, tmp_path):
    words = ["explain", birds / "q/one.png", birds / "d", *VGG, "--auxiliary", "aviary", "--target", 5]
    invoke(*words, "--set", "beam=2", "--set", "lam=0.2", "--max-edits", 1, "--save", tmp_path / "why.json")
    record = json.loads((tmp_path / "why.json").read_text())["settings"]
    assert (record["beam"], record["lam"], record["max_edits"]) == (2, 0.2, 1)


def test_distractors_of_a_data_set(birds):
    words = ["explain", birds / "q/one.png", *VGG, "--data", "aviary", "--option", "per_class=3"]
    assert "Olive Warbler -> Spectacled Warbler" in invoke(*words, "--target", "Spectacled Warbler")


def test_a_saved_explanation_is_drawn_from_the_file_alone(birds, tmp_path, monkeypatch):
    monkeypatch.chdir(birds)
    invoke("explain", "q/one.png", "d", *VGG, "--target", 5, "--save", tmp_path / "why.json")
    monkeypatch.chdir(tmp_path)
    assert "drew" in invoke("show", "why.json", "--plot", "why.html")
    assert "data:image/jpeg" in (tmp_path / "why.html").read_text()


def test_without_an_auxiliary_it_is_said(birds):
    words = ["explain", birds / "q/one.png", birds / "d", *VGG, "--target", 5]
    assert "note: no auxiliary" in invoke(*words, "--auxiliary", "none")
    assert "note: no auxiliary" not in invoke(*words, "--method", "goyal", "--auxiliary", "none")
    assert "note: no auxiliary" not in invoke(*words, "--auxiliary", "aviary")


def test_without_a_word_about_auxiliaries_one_is_used_and_named(birds):
    output = invoke("explain", birds / "q/one.png", birds / "d", *VGG, "--target", 5)
    assert "note: auxiliary: aviary, trained on these birds, without labels." in output
    assert "no auxiliary" not in output


@pytest.mark.parametrize("width", [80, 60])
def test_what_is_said_on_a_terminal_fits(width, birds, monkeypatch):
    words = ["explain", birds / "q/one.png", birds / "d", *VGG, "--target", 5, "--auxiliary", "none"]
    plain = invoke(*words)
    assert any(len(line) > width for line in plain.splitlines())  # for other programs lines stay whole
    monkeypatch.setattr(options.console, "_width", width)
    monkeypatch.setattr(options.console, "_force_terminal", True)
    output = invoke(*words)
    assert all(len(line) <= width for line in output.splitlines())
    assert output.split() == plain.split()


def test_verdicts_fit_a_terminal_and_paths_stay_whole():
    few = Randomised("all", Estimate.of([0.5, 0.4]), Estimate.of([0.1, 0.1]), Estimate.of([0.1]), 0)
    path = "saved /" + "folder/" * 20
    for text in (few.verdict(), sanity_verdict([few])):
        lines = wrapped(text).splitlines()
        assert all(len(line) <= 80 for line in lines)
        assert " ".join(text.split()) == " ".join(" ".join(lines).split())
    assert path.split()[1] in wrapped(path).split()


@pytest.mark.parametrize("width", [80, 60])
def test_names_of_layers_can_be_copied(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(options.console, "_width", width)
    output = invoke("layers", "timm:vit_tiny_patch16_224")
    assert all(len(line) <= width for line in output.splitlines())
    assert "…" not in output
    assert re.search(r"\bblocks\.\d+\b.*default", output)


def test_layers_are_listed():
    assert "features" in invoke("layers", "aviary:vgg")
    assert "layer4.0" in invoke("layers", "resnet50")


def test_birds_are_drawn(tmp_path):
    assert "drew" in invoke("aviary", "sheet", tmp_path / "new" / "sheet.png")
    assert (tmp_path / "new" / "sheet.png").exists()


def test_the_demo_writes_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "run_demo", partial(demo.run_demo, per_class=2))  # fewer birds to choose from
    output = invoke("demo", "--queries", 2, "--distractors", 2, "--out", tmp_path)
    assert "2 birds, shipped vgg classifier" in output
    assert (tmp_path / "report.html").stat().st_size > 10_000


# -- data sets ------------------------------------------------------------------------------------------------------


def test_features_are_computed_ahead(cache):
    output = invoke("encode", *BIRDS, "--option", "per_class=2", "--auxiliary", "aviary", "--cache", cache)
    assert "80 images of aviary test" in output
    assert list(cache.iterdir())


def test_tuning_chooses_a_pair(cache, tmp_path):
    command = ["tune", *BIRDS, "--queries", 4, "--split", "test", "--distractors", 2]
    command += ["--lam", 0, "--lam", 0.4, "--tau", 0.1, "--option", "per_class=2", "--cache", cache]
    output = invoke(*command, "--out", tmp_path)
    assert "tau = 0.1; plot:" in output
    assert "note: auxiliary: aviary" in output  # found without a word
    record = json.loads((tmp_path / "tune.json").read_text())
    assert len(record["points"]) == 2
    assert record["best"] in record["points"]
    assert (tmp_path / "tune.png").stat().st_size > 10_000


@pytest.mark.parametrize(("check", "extra"), [("sanity", ["--which", "head"]), ("stability", ["--pixels", "2"])])
def test_explanations_are_checked(check, extra, cache, tmp_path):
    command = ["check", check, *BIRDS, "--auxiliary", "aviary", "--queries", 2, "--distractors", 1, *extra]
    output = invoke(*command, "--option", "per_class=2", "--cache", cache, "--out", tmp_path)
    assert f"{check}.csv" in output
    assert (output.splitlines()[-1].startswith("verdict: ")) == (check == "sanity")
    rows = (tmp_path / f"{check}.csv").read_text().splitlines()
    assert len(rows) == 2
    assert rows[1].split(",")[0] == extra[1]


@pytest.mark.parametrize("method", ["hard", "paper", "partswap"])
def test_a_method_that_uses_its_auxiliary_is_not_said_to_have_none(method, birds):
    command = ["explain", birds / "q/one.png", birds / "d", *VGG]
    output = invoke(*command, "--method", method)
    assert "note: auxiliary: aviary" in output
    assert "no auxiliary" not in output
    assert "no auxiliary" in invoke(*command, "--auxiliary", "none")


def test_a_cache_that_cannot_be_written_is_named(tmp_path, failing):
    (tmp_path / "file").touch()
    output = failing("encode", *BIRDS, "--option", "per_class=1", "--cache", tmp_path / "file" / "cache")
    assert "error: the cache folder" in output
    assert "Choose another (--cache)." in output


def test_a_network_that_does_not_exist_is_said_to_be_none(birds, failing):
    for name in ("resnet50_v7", "resnte50"):
        output = failing("explain", birds / "q/one.png", birds / "d", "--model", name)
        assert f"error: there is no model called '{name}'. Did you mean '" in output


def test_a_target_is_suggested_by_its_beginning(birds, failing):
    output = failing("explain", birds / "q/one.png", birds / "d", *VGG, "--target", "spect")
    assert "there is no class 'spect'. Did you mean 'Spectacled Warbler'" in output


PLACES = [
    (words, parameter)
    for words, command in COMMANDS.items()
    for parameter in command.params
    if parameter.name in ("out", "save", "plot") and words not in [("aviary", "sheet"), ("aviary", "save")]
]


@pytest.mark.parametrize(
    ("words", "parameter"), PLACES, ids=lambda part: " ".join(part) if isinstance(part, tuple) else part.name
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(words, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "image.png").touch()
    required = [p for p in COMMANDS[words].params if p.required and p is not parameter]
    arguments = ["image.png" for p in required if p.param_type_name == "argument"]
    options = [word for p in required if p.param_type_name == "option" for word in (p.opts[0], "nothing")]
    if words == ("explain",):
        arguments.append("image.png")
    if words == ("parts", "name"):
        options = ["--data", "cub", "--auxiliary", "swav"]
    if words == ("run",):  # a file might name what it needs
        options = ["--data", "aviary", "--model", "nothing"]
    result = CliRunner().invoke(app, [*words, *arguments, *options, parameter.opts[0], "file/inside.json"])
    assert isinstance(result.exception, PartswapError), result.output
    assert "file is a file" in str(result.exception)  # and not that there is no such model or data set


def test_a_failed_check_is_an_exit_code_if_asked_for(cache, monkeypatch):
    monkeypatch.setattr("partswap.analysis.sanity.randomise", lambda model, names, seed: model)
    command = ["check", "sanity", *BIRDS, "--queries", 2, "--distractors", 1, "--which", "head"]
    command += ["--option", "per_class=2", "--cache", cache]
    for strict in (False, True):
        output = invoke(*command, *["--strict"] * strict, fails=strict)
        assert "they hardly depend on the model." in output
        assert output.splitlines()[-1].startswith("verdict: FAILS (0 of 1 checks pass)")


def test_a_run_goes_on_with_what_is_there(whole_run, tmp_path):
    path, out = tmp_path / "run.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump({k: v for k, v in whole_run.record().items() if k != "out"}))
    shutil.copytree(whole_run.out, out)
    for gone in (out / "metrics.json", *sorted(out.glob("edits/*/*.parquet"))[5:8]):
        gone.unlink()
    output = invoke("run", path, "--out", out)
    assert "Same-KP all" in output
    assert "misclassified" in output
    files, again = (sorted(p for p in folder.rglob("edits/**/*") if p.is_file()) for folder in (whole_run.out, out))
    assert [p.relative_to(whole_run.out) for p in files] == [p.relative_to(out) for p in again]
    assert [p.read_bytes() for p in files] == [p.read_bytes() for p in again]


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
    trained = [
        *data,
        "--train-split",
        "all",
        "--test-split",
        "all",
        "--out",
        tmp_path / "out",
        "--arch",
        "none.py:build",
    ]
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
    _, skipped = plan_run(config, open_run_context(config))
    assert skipped["unreadable_images"] == 1
    assert "1 more cannot be read" in skipped_text(Run(tmp_path, {"skipped": skipped, "images": 39}))


def test_training_refuses_a_folder_with_something_else(tmp_path):
    out = trees.folder(tmp_path / "birds")
    before = sorted(out.rglob("*"))
    for kind in ("classifier", "parts"):
        result = CliRunner().invoke(app, ["train", kind, "--data", "aviary", "--out", str(out)])
        assert "birds holds something else ('001.Red_Kite'), and no training. Choose" in str(result.exception)
    assert sorted(out.rglob("*")) == before


@pytest.mark.parametrize(
    "words", ["run", "tune", "paper sota", "check sanity", "check stability", "encode",
              "train classifier", "train parts"],
)  # fmt: skip
def test_the_device_is_chosen_everywhere(words, tmp_path):
    missing = next(kind for kind in ("mps", "cuda") if kind not in devices())
    model = [] if "train" in words else ["--model", "aviary:vgg"]
    out = [] if words in ("encode", "check sanity", "check stability") else ["--out", str(tmp_path / "out")]
    command = [*words.split(), "--data", "aviary", *model, *out, "--device", missing]
    result = CliRunner().invoke(app, command)
    assert f"there is no {missing} device here" in str(result.exception), result.output


def test_the_device_is_chosen_where_one_model_is_looked_at(tmp_path):
    missing = next(kind for kind in ("mps", "cuda") if kind not in devices())
    partswap.aviary.draw(0, 0).image.save(tmp_path / "bird.png")
    bird = str(tmp_path / "bird.png")
    for words in (["layers", "aviary:vgg"], ["explain", bird, bird, "--model", "aviary:vgg"]):
        result = CliRunner().invoke(app, [*words, "--device", missing])
        assert f"there is no {missing} device here" in str(result.exception), result.output
    assert "default" in CliRunner().invoke(app, ["layers", "aviary:vgg", "--device", "cpu"]).output


def test_every_method_that_has_a_setting_takes_it(tmp_path):
    birds = ["--data", "aviary", "--model", "aviary:vgg", "--method", "partswap", "--method", "goyal"]
    for spelling in ("--set", "--setting"):
        command = ["run", *birds, spelling, "beem=4", "--out", str(tmp_path / "out")]
        result = CliRunner().invoke(app, command)
        assert "has the setting 'beem' (methods: partswap, goyal). Did you mean 'beam'" in str(result.exception)


# -- what goes wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("show {}/none.json", "there is no file"),
        ("show {}", "is a folder, not a counterfactual"),
        ("show {}/[/x].json", "[/x].json"),
        ("explain a.jpg b.jpg --model resnet50", "resnet50 has no weights. Give --weights"),
        ("explain a.jpg {}/none --model aviary:vgg", "there is no image or folder"),
        ("explain a.jpg {} --model aviary:vgg", "Folders are searched for"),
        ("explain a.jpg b.jpg --model aviary:vgg --auxiliary-layer x", "Name it with --auxiliary"),
        ("explain a.jpg b.jpg --model aviary:vgg --plot why.docx", "Use one of png, svg, pdf, jpg, html"),
        ("explain a.jpg --model aviary:vgg", "Name some, or a data set with --data"),
        ("explain a.jpg b.jpg --model aviary:vgg --weights x.pt", "aviary:vgg has weights of its own"),
        ("explain https://example.org/a.jpg b.jpg --model aviary:vgg", "Use --fetch"),
        ("explain a.jpg b.jpg --model aviary:vgg --target Marsh", "there is no class 'Marsh'"),
        ("explain a.jpg b.jpg --model aviary:vgg --set beem=4", "Did you mean 'beam'"),
        ("explain a.jpg b.jpg --model aviary:vgg --device tpu", "there is no tpu device here"),
        ("explain a.jpg b.jpg --query b.jpg --model aviary:vgg --save why.json", "Give a folder"),
        ("explain a.jpg b.jpg --model {}/none.py:build", "there is no file"),
        ("explain a.jpg b.jpg --model hf:{}", "holds no Hugging Face model"),
        ("explain a.jpg b.jpg --model mymodel.py", "a model in a file is file.py:function"),
        ("layers mymodel.py", "a model in a file is file.py:function"),
        ("explain a.jpg b.jpg --model b.jpg", "b.jpg is a file, and no model. Name the architecture"),
        ("explain a.jpg b.jpg --model aviary:vgg --layer features.99", "partswap layers shows them all"),
        ("classes resnet18 --classes {}/none.txt", "of class names"),
        ("aviary train vgk", "Did you mean 'vgg'"),
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
def test_an_error_is_one_line_with_the_fix(words, message, tmp_path, tmp_path_factory, monkeypatch, capsys):
    here = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(here)
    for name, species in (("a.jpg", 4), ("b.jpg", 5)):
        partswap.aviary.draw(species, 0).image.save(here / name)
    monkeypatch.setattr(sys, "argv", ["partswap", *words.format(tmp_path).split()])
    with pytest.raises(SystemExit) as ended:
        main()
    # On a busy machine a step may take so long that it says before that it is under way: "opening hf:... ...".
    before, _, rest = capsys.readouterr().err.rpartition("error: ")
    output = ("error: " + rest).splitlines()
    assert before == "" or before.rstrip().endswith("...")
    assert ended.value.code == 1
    assert len(output) == 1
    assert message in output[0]


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
