"""Progress: every long step of a command is shown, and only what takes long."""

import time
from contextlib import contextmanager

import pytest

from partswap import progress
from partswap.data.sets.aviary import Aviary
from partswap.runs.run import run
from partswap.runs.workbench import open_workbench
from partswap.studies.compare import compare_runs
from partswap.studies.sanity import check_sanity


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
    check_sanity(open_workbench(whole_run), queries=1, distractors=1, which=["head"], track=shown)
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


def test_a_classifier_is_measured_with_a_bar(tmp_path):
    from partswap.training.classifier import train_classifier
    from partswap.training.loop import Recipe
    from partswap.training.plan import Plan

    birds = Aviary("train", per_class=1)
    shown = Recorder()
    recipe = Recipe(epochs=1, batch=20)
    train_classifier(birds, birds, Plan("timm:test_resnet", None), recipe, tmp_path, track=shown)
    shown.check("epoch 1/1", "measuring")
    assert shown.seen["measuring"] == [40, 40]
