"""Studies are made from runs: the same image pairs for every method, tests on other images, nothing given away."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter
from typer.testing import CliRunner

from partswap.apps.study.folder import read_study
from partswap.apps.study.plan import StudyConfig, plan_study
from partswap.cli.main import app
from partswap.errors import SettingError
from partswap.pixels.composite import BLUR, highlighted
from partswap.runs.config import RunConfig
from partswap.runs.folder import read_run
from partswap.runs.run import run

METHODS = ("partswap", "goyal", "scout")
SMALL = StudyConfig(METHODS, learning=2, questions=4, participants=5, blocks=3, least_seconds=0.0)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, aviary_cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("study")
    config = RunConfig(
        data="aviary", split="train", model="aviary:vgg", auxiliary="aviary", options={"per_class": 4},
        methods=METHODS, settings={"partswap": {"max_edits": 1}}, distractors=1, out=folder / "run",
        cache=aviary_cache, workers=1,
    )  # fmt: skip
    run(config)
    return folder / "run"


@pytest.fixture(scope="module")
def planned(run_folder: Path) -> Path:
    out = run_folder.parent / "study"
    plan_study([run_folder], out, SMALL)
    return out


def test_every_method_shows_the_same_image_pairs_and_its_own_cells(planned, run_folder):
    study, made = read_study(planned), read_run(run_folder)
    assert [method.name for method in study.methods] == list(METHODS)
    found = {
        method: {
            (task.query, task.distractors[0]): (cf.edits[0].query_cell, cf.edits[0].distractor_cell % cf.grid.cells)
            for task, cf in made.explained(method).values()
        }
        for method in METHODS
    }
    data = made.open_data()
    by_pair: dict[int, dict[str, list]] = {}
    for lesson in study.lessons:
        by_pair.setdefault(lesson.pair, {})[lesson.method] = list(lesson.learning)
    for number, lessons in by_pair.items():
        pair = study.pairs[number]
        assert set(lessons) == set(METHODS)
        for k in range(SMALL.learning):
            # Which image pair it is, is told by the cells that all methods swap.
            boxes = {
                method: tuple(
                    round(7 * side.box[1]) * 7 + round(7 * side.box[0]) for side in (one.query, one.distractor)
                )
                for method, one in ((m, lessons[m][k]) for m in METHODS)
            }
            matching = [
                key
                for key in found["partswap"]
                if all(found[m].get(key) == boxes[m] for m in METHODS)
                and data.classes[data.label(key[0])] == pair.first
                and data.classes[data.label(key[1])] == pair.second
            ]
            assert matching


def test_a_pair_of_classes_is_there_once_and_tests_are_balanced(planned):
    study = read_study(planned)
    names = [frozenset((pair.first, pair.second)) for pair in study.pairs]
    assert len(set(names)) == len(names) > 3
    for pair in study.pairs:
        assert sum(question.second for question in pair.questions) == SMALL.questions // 2
    images = [question.image for pair in study.pairs for question in pair.questions]
    assert len(set(images)) == len(images)


def test_files_say_nothing(planned):
    files = list((planned / "images").iterdir())
    study = read_study(planned)
    questions = {question.image for pair in study.pairs for question in pair.questions}
    sizes = {stem in questions: set() for stem in (True, False)} | {True: set(), False: set()}
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{32}\.jpg", file.name)
        sizes[file.stem in questions].add(file.stat().st_size)
        assert Image.open(file).size == (480, 480)
    assert all(len(known) == 1 for known in sizes.values())


def test_everything_but_the_region_is_blurred():
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 255, (480, 480, 3), dtype=np.uint8))
    shown = np.asarray(highlighted(picture, (2 / 8, 3 / 8, 3 / 8, 4 / 8)), np.int32)
    whole = np.asarray(picture, np.int32)
    assert (shown[180:240, 120:180] == whole[180:240, 120:180]).all()
    outside = np.ones((480, 480), bool)
    outside[165:255, 105:195] = False
    blurred = np.asarray(picture.filter(ImageFilter.GaussianBlur(BLUR * 480)), np.int32)
    assert (shown[outside] == blurred[outside]).all()
    assert whole[outside].std() > 10 * shown[outside].std()  # nothing fine is left


def test_consistent_pairs_are_those_where_ours_alone_is_right(run_folder, tmp_path):
    choices = StudyConfig(METHODS, setups=("random", "consistent"), learning=1, questions=2, participants=4, blocks=2)
    study, counts = plan_study([run_folder], tmp_path / "study", choices)
    assert counts["random"] >= counts["consistent"] > 0
    # Pairs that have both setups come first.
    setups = [{lesson.setup for lesson in study.lessons if lesson.pair == k} for k in range(len(study.pairs))]
    assert [len(s) for s in setups] == sorted((len(s) for s in setups), reverse=True)


def test_the_same_seed_gives_the_same_pictures_in_orders_of_their_own(run_folder, tmp_path):
    plans, secrets, slots = [], [], []
    for name in ("one", "two"):
        study, _ = plan_study([run_folder], tmp_path / name, SMALL)
        assert read_study(tmp_path / name) == study
        secrets.append(study.secret)
        slots.append(study.slots)
        text = study.model_dump_json(exclude={"secret", "slots"})
        # Pictures are called otherwise every time.
        for number, image in enumerate(dict.fromkeys(re.findall(r"[0-9a-f]{32}", text))):
            text = text.replace(image, f"image {number}")
        plans.append(text)
    assert plans[0] == plans[1]
    assert secrets[0] != secrets[1]
    assert slots[0] != slots[1]
    assert [[block.lesson for block in slot] for slot in slots[0]] != [[b.lesson for b in slot] for slot in slots[1]]


def test_what_cannot_be_planned_is_refused(run_folder, whole_run, tmp_path, planned):
    for choices, problem in (
        (replace(SMALL, learning=50), "no pair of classes has 50 image pairs"),
        (replace(SMALL, pairs=500), "500 pairs of classes were asked for"),
        (replace(SMALL, blocks=300), "cannot see 300 pairs"),
        (replace(SMALL, questions=10), "'test' has 4 images of a class, and a test needs 5"),
        (replace(SMALL, methods=("partswap", "paper")), "no run explains with 'paper'"),
        (replace(SMALL, test_split="train"), "which the tests are to be made of"),
    ):
        with pytest.raises(SettingError, match=problem):
            plan_study([run_folder], tmp_path / "study", choices)
    with pytest.raises(SettingError, match=r"holds something else"):
        plan_study([run_folder], planned, SMALL)
    with pytest.raises(SettingError, match=r"were made with another"):
        plan_study([run_folder, whole_run.out], tmp_path / "study", SMALL)
    with pytest.raises(SettingError, match=r"distractors"):
        plan_study([whole_run.out], tmp_path / "study", StudyConfig(("goyal", "paper"), learning=1, test_split="train"))
    for bad in (
        {"questions": 3}, {"questions": 0}, {"learning": 0}, {"blocks": 0}, {"setups": ("other",)}, {"setups": ()},
        {"attention": -1}, {"return_url": "javascript:x"}, {"pairs": 0},
        {"methods": ("goyal",), "setups": ("consistent",)},
    ):  # fmt: skip
        with pytest.raises(SettingError):
            StudyConfig(**bad)


def test_from_runs_to_an_analysis_on_the_command_line(run_folder, tmp_path):
    runner, out = CliRunner(), tmp_path / "study"
    consent = tmp_path / "consent.txt"
    consent.write_text("We ask you to look at birds.")
    command = [
        "study",
        "plan",
        str(run_folder),
        "--out",
        str(out),
        "--learning",
        "2",
        "--questions",
        "4",
        "--blocks",
        "3",
    ]
    result = runner.invoke(app, [*command, "--participants", "6", "--consent", str(consent)])
    assert result.exit_code == 0, result.output
    assert "is found with 80 %" in result.output
    assert "draft" not in result.output
    assert read_study(out).consent == "We ask you to look at birds."
    page = (out / "preview.html").read_text()
    assert page.count("<img") > 50
    result = runner.invoke(app, ["study", "serve", str(out), "--simulate", "6"])
    assert result.exit_code == 0, result.output
    assert "6 simulated participants" in result.output
    assert "0 errors" in result.output
    found = json.loads((out / "simulated" / "analysis.json").read_text())
    assert found["simulated"]
    assert not (out / "answers.db").exists()
    copy = tmp_path / "copy.db"
    base = ["--database", f"sqlite:///{out / 'simulated.db'}"]
    assert runner.invoke(app, ["study", "backup", str(out), "--out", str(copy), *base]).exit_code == 0
    again = runner.invoke(app, ["study", "analyse", str(out), "--database", f"sqlite:///{copy}"])
    assert again.exit_code == 0, again.output
    assert json.loads((out / "analysis" / "analysis.json").read_text()) == found
    refused = runner.invoke(app, ["study", "backup", str(out), "--out", str(tmp_path / "x.db")])
    assert refused.exit_code
    assert "only simulated participants" in str(refused.exception)
    assert f"--database sqlite:///{out / 'simulated.db'}." in str(refused.exception)
    (out / "simulated.db").unlink()
    refused = runner.invoke(app, ["study", "analyse", str(out)])
    assert "no answers yet" in str(refused.exception)
