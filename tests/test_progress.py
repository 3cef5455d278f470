"""Progress: every long step of a command is shown, and only what takes long."""

import sys
import threading
import time
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from partswap import Explainer, aviary
from partswap.analysis.compare import compare_runs
from partswap.analysis.sanity import check_sanity
from partswap.cli.main import app
from partswap.data.sets.aviary import Aviary
from partswap.runs.context import open_run_context
from partswap.runs.run import run
from partswap.utils import progress


class Recorder:
    """A track that remembers its bars: title -> how much was to be done, and was."""

    def __init__(self):
        self.seen = {}

    @contextmanager
    def __call__(self, title, total, done=0):
        def advance(steps):
            self.seen[title][1] += steps

        self.seen[title] = [total, done]
        yield advance

    def check(self, *titles):
        assert set(titles) <= set(self.seen)
        assert all(total == done for total, done in self.seen.values()), self.seen


def test_a_run_and_what_is_made_of_it_show_every_step(whole_run, tmp_path):
    shown = Recorder()
    config = whole_run.with_(
        out=tmp_path / "run", methods=("goyal", "hard"), settings={"hard": {"clusters": 4}}, queries=2
    )
    run(config, track=shown)
    shown.check("opening the data set", "opening the classifier", "cutting the network", "preparing methods",
                "explanations", "metrics and figures")  # fmt: skip
    run(whole_run.with_(out=tmp_path / "other", methods=("goyal",), settings={"goyal": {"max_edits": 1}}, queries=2))
    shown = Recorder()
    found = compare_runs(tmp_path / "run", tmp_path / "other", samples=20, track=shown)
    found.draw(tmp_path, shown)
    shown.check("opening the data set", "reading explanations of goyal", "metrics of goyal", "intervals of goyal")
    assert ("pictures of goyal" in shown.seen) == bool(found.most["goyal", "goyal"])
    shown = Recorder()
    check_sanity(open_run_context(whole_run), queries=1, distractors=1, which=["head"], track=shown)
    shown.check("randomising head", "randomised head")


def test_a_step_says_that_it_is_under_way_once_it_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    said = ""
    with progress.step(progress.bars, "looking [at] it"):
        while not said.endswith("\n"):
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert said == "looking [at] it ...\n"
    monkeypatch.setattr(progress, "PATIENCE", 60)
    with progress.step(progress.bars, "looking"):
        pass
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="mine"), progress.step(progress.bars, "failing"):
        raise ValueError("mine")


def test_a_bar_is_shown_once_work_takes_long_and_not_within_another(monkeypatch):
    started, shown = [], threading.Event()

    def start(bar):
        started.append(bar.tasks[0].description)
        shown.set()

    monkeypatch.setattr("rich.progress.Progress.start", start)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.bars("outer", 3):
        assert shown.wait(10)
        with progress.bars("inner", 2), progress.step(progress.bars, "innermost"):
            time.sleep(0.1)
    monkeypatch.setattr(progress, "PATIENCE", 60)
    with progress.bars("quick", 3) as advance:
        advance(3)
    assert started == ["outer"]


def test_images_that_are_explained_are_counted(tmp_path):
    shown = Recorder()
    birds = [aviary.draw(5, seed).image for seed in range(40)]
    Explainer("aviary:vgg", auxiliary="aviary", track=shown).encode(birds)
    shown.check("reading images", "features", "auxiliary features")
    assert shown.seen["features"] == shown.seen["auxiliary features"] == shown.seen["reading images"] == [40, 40]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("classes aviary:vgg", ["opening aviary:vgg"]),
        ("layers aviary:vgg", ["inspecting aviary:vgg"]),
        ("aviary save {0}/new --per-class 1", ["drawing birds"]),
        ("aviary sheet {0}/new.png", ["drawing birds"]),
        ("explain {0} {1} --model aviary:vgg", ["opening aviary:vgg", "reading images", "features", "explaining"]),
    ],
)
def test_commands_show_all_that_takes_long(words, lines, tmp_path, monkeypatch):
    for name, species in (("a/query.png", 4), ("b/one.png", 5), ("b/two.png", 5)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        aviary.draw(species, len(name)).image.save(tmp_path / name)
    shown, bars = Recorder(), progress.bars
    for module in [module for name, module in sys.modules.items() if name.startswith("partswap.")]:
        if vars(module).get("bars") is bars:
            monkeypatch.setattr(module, "bars", shown)
    result = CliRunner().invoke(app, words.format(tmp_path / "a", tmp_path / "b").split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert all(any(title.startswith(line) for title in shown.seen) for line in lines), shown.seen


def test_a_classifier_is_measured_with_a_bar(tmp_path):
    from partswap.training.classifier import train_classifier
    from partswap.training.loop import Recipe
    from partswap.training.plan import TrainingPlan

    birds = Aviary("train", per_class=1)
    shown = Recorder()
    recipe = Recipe(epochs=1, batch=20)
    train_classifier(birds, birds, TrainingPlan("timm:test_resnet", None), recipe, tmp_path, track=shown)
    shown.check("epoch 1/1", "measuring")
    assert shown.seen["measuring"] == [40, 40]


def test_items_are_counted_after_the_body_and_the_bar_ends_with_the_loop():
    events = []

    @contextmanager
    def track(title, total, done=0):
        events.append((title, total, done))
        try:
            yield lambda steps: events.append(steps)
        finally:
            events.append("end")

    for item in progress.tracked(["ab", "c"], "letters", track, total=9, done=6, size=len):
        events.append(item)
    assert events == [("letters", 9, 6), "ab", 2, "c", 1, "end"]
    events.clear()
    for _ in progress.tracked([1, 2], "left early", track):
        break
    assert events == [("left early", 2, 0), "end"]
    events.clear()

    def fail():
        for item in progress.tracked([1, 2], "failing", track):
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 1") as raised:
        fail()
    assert raised.value
    assert events == [("failing", 2, 0), "end"]
