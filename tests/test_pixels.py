"""The pixel check: what the whole network says of a composite."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from partswap import Counterfactual, Explainer, aviary
from partswap.errors import PartswapError, SettingError
from partswap.metrics import METRICS
from partswap.models import shipped
from partswap.pixels.check import pairs_of, random_pairs
from partswap.results.counterfactual import PixelCheck
from partswap.runs.config import RunConfig
from partswap.runs.records import counterfactuals_of, edits_table
from partswap.runs.run import run
from partswap.runs.tasks import Task
from partswap.search import beam, find_counterfactual
from partswap.search.find import search
from partswap.search.problem import Problem
from partswap.search.settings import SearchSettings


@pytest.fixture(scope="module")
def explainer():
    return Explainer("aviary:vgg", auxiliary="aviary")


@pytest.fixture(scope="module")
def birds():
    return aviary.draw(0, 7).image, [aviary.draw(1, seed).image for seed in range(3)]


@pytest.fixture(scope="module")
def checked(explainer, birds):
    return explainer.explain(*birds, target=1, pixel=True)


def test_the_check_is_the_model_run_by_hand(explainer, checked):
    model = shipped.load("vgg").eval()
    inputs = [explainer.preprocess.tensor(p) for p in (checked.pictures.query, checked.composite())]
    with torch.no_grad():
        before, after = model(torch.stack(inputs)).softmax(1)
    assert checked.pixel.before == pytest.approx(float(before[1]), abs=1e-5)
    assert checked.pixel.after == pytest.approx(float(after[1]), abs=1e-5)
    assert checked.pixel.predicted == int(after.argmax())
    assert checked.pixel.flipped == (checked.pixel.predicted == 1) == bool(checked.pixel)


def test_a_check_can_be_made_later(explainer, birds, checked):
    plain = explainer.explain(*birds, target=1)
    assert plain.pixel is None
    assert "pixel" not in plain.settings
    later = explainer.pixel_check(plain)
    assert later.pixel is not None
    assert replace(later, pixel=None, source=plain.source) == plain
    assert explainer.pixel_check(checked).pixel.after == pytest.approx(checked.pixel.after, abs=1e-5)


def test_it_is_said_in_words(checked):
    assert "in pixels the whole network" in str(checked)
    assert "in pixels the whole network" in checked._repr_html_()
    assert checked.class_name(checked.pixel.predicted) in checked.pixel_text()


@pytest.mark.parametrize("method", ["paper", "goyal", "scout"])
def test_other_methods_are_checked_and_otherwise_as_they_are(explainer, birds, method):
    one, two = (explainer.explain(*birds, target=1, method=method, pixel=pixel) for pixel in (False, True))
    assert two.pixel is not None
    assert one.edits == two.edits


def test_features_without_pictures_are_refused(explainer, birds):
    query, distractors = explainer.encode([birds[0]]), explainer.encode(birds[1])
    with pytest.raises(SettingError, match="needs the images"):
        explainer.explain(replace(query, pictures=[]), replace(distractors, pictures=[]), 1, pixel=True)


# -- the search -------------------------------------------------------------------------------------------------------


class Judge:
    """Accepts the sets that a rule accepts, and remembers what it was asked."""

    def __init__(self, rule):
        self.rule, self.asked = rule, []

    def __call__(self, sets):
        self.asked += [frozenset(pairs) for pairs in sets]
        return [self.rule(frozenset(pairs)) for pairs in sets]


def solve(problem, rule, **settings):
    judge = Judge(rule)
    asked = {k: v for k, v in problem.items() if k != "head"}
    posed = replace(Problem.of(asked.pop("query"), asked.pop("distractors"), asked.pop("target"), **asked), judge=judge)
    return search(problem["head"], posed, SearchSettings(**settings)), judge


def test_a_judge_that_accepts_everything_changes_nothing(problem):
    usual = find_counterfactual(**problem)
    found, judge = solve(problem, lambda pairs: True)
    assert set(pairs_of(found)) == set(pairs_of(usual))
    assert len(judge.asked) <= beam.AT_ONCE
    assert found.settings["pixel"] is True


def test_a_judge_that_accepts_nothing_leaves_the_usual_and_is_asked_little(problem):
    usual = find_counterfactual(**problem)
    found, judge = solve(problem, lambda pairs: False)
    assert found.edits == usual.edits
    assert found.flipped
    assert len(judge.asked) <= (1 + beam.DEEPER) * beam.TRIES
    assert len(set(judge.asked)) == len(judge.asked)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_accepted_is_taken_and_always_flips(problem, seed):
    rng = np.random.default_rng(seed)
    liked = set(rng.choice(49, 12, replace=False).tolist())

    def rule(pairs):
        return any(i in liked for i, _ in pairs)

    usual = find_counterfactual(**problem)
    found, judge = solve(problem, rule, screen=None if seed % 2 else "auto")
    assert found.flipped
    assert found.verify(problem["head"], problem["query"], problem["distractors"])
    assert len(found) <= len(usual) + beam.DEEPER
    accepted = [pairs for pairs in judge.asked if rule(pairs)]
    if accepted:
        assert frozenset(pairs_of(found)) == accepted[0]
    else:
        assert found.edits == usual.edits


def test_an_edit_more_is_taken_where_nothing_else_is_accepted(problem):
    usual = find_counterfactual(**problem)
    found, _ = solve(problem, lambda pairs: len(pairs) > len(usual))
    assert len(found) == len(usual) + 1
    assert found.flipped
    assert found.flip <= len(found)
    assert found.verify(problem["head"], problem["query"], problem["distractors"])


def test_the_published_greedy_does_not_ask(problem):
    found, judge = solve(problem, lambda pairs: False, objective="paper", beam=1)
    assert not judge.asked
    assert "pixel" not in found.settings


# -- controls and metrics ---------------------------------------------------------------------------------------------


def test_controls_are_as_many_and_drawn_again_alike(problem):
    cf = find_counterfactual(**problem)
    drawn, kept = random_pairs(cf, 3), random_pairs(cf, 3, cells=False)
    assert len(drawn) == len(kept) == len(cf)
    assert len({i for i, _ in drawn}) == len(cf)
    assert [i for i, _ in kept] == [e.query_cell for e in cf.edits]
    assert all(0 <= j < 4 * 49 for _, j in (*drawn, *kept))
    assert drawn == random_pairs(cf, 3)
    assert any(random_pairs(cf, seed) != drawn for seed in range(5))
    with pytest.raises(SettingError, match="seed"):
        random_pairs(cf, -1)


def test_metrics_are_of_what_was_checked(problem):
    cf = find_counterfactual(**problem)
    flip, gain = METRICS.get("pixel_flip")(), METRICS.get("pixel_gain")()
    assert flip.scores(cf, None) is None
    assert gain.scores(cf, None) is None
    held = replace(cf, pixel=PixelCheck(0.1, 0.7, cf.target, True))
    failed = replace(cf, pixel=PixelCheck(0.2, 0.1, cf.query_class, False))
    assert flip.compute([(held, None), (failed, None), (cf, None)]).all == 0.5
    assert gain.compute([(held, None), (failed, None), (cf, None)]).all == pytest.approx(0.25)


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_hold_the_check_and_older_ones_are_read(tmp_path, checked):
    read = Counterfactual.load(checked.save(tmp_path / "why.json"))
    assert read == checked
    assert read.pixel == checked.pixel
    data = json.loads((tmp_path / "why.json").read_text())
    assert data["version"] == 4
    old = {k: v for k, v in data.items() if k != "pixel"} | {"version": 3}
    assert Counterfactual.from_dict(old) == replace(checked, pixel=None)
    data["pixel"]["after"] = "much"
    with pytest.raises(PartswapError, match="damaged"):
        Counterfactual.from_dict(data)


def test_tables_hold_the_check_and_older_ones_are_read(checked):
    task = Task(0, 1, tuple(range(1, 1 + checked.distractors)))
    plain = replace(checked, pixel=None)
    table = edits_table(0, [task, task], [checked, plain], ["a", "b"])
    names = [f"class {k}" for k in range(99)]
    read = counterfactuals_of(table, names)
    assert read[0][1].pixel == checked.pixel
    assert read[1][1].pixel is None
    assert read[0][1].class_name(checked.pixel.predicted) == f"class {checked.pixel.predicted}"
    older = table.drop_columns(["pixel_before", "pixel_after", "pixel_predicted"])
    assert isinstance(older, pa.Table)
    assert counterfactuals_of(older, names)[0][1].pixel is None


@pytest.mark.usefixtures("without_figures")
def test_a_run_checks_in_pixels_the_same_with_any_number_of_workers(tmp_path):
    config = RunConfig(
        data="aviary", model="aviary:vgg", auxiliary="aviary", options={"per_class": 2}, methods=("partswap", "goyal"),
        settings={"partswap": {"beam": 2}}, distractors=2, queries=3, shard=2, precision="float32", pixel=True,
        cache=tmp_path / "cache", out=tmp_path / "one", workers=1,
    )  # fmt: skip
    assert "pixel" in config.record()
    assert "pixel" not in config.with_(pixel=False).record()
    made = [run(config), run(config.with_(out=tmp_path / "two", workers=2))]
    for method in config.methods:
        found = [[cf for _, cf in each.explained(method).values()] for each in made]
        assert all(cf.pixel is not None for cf in found[0])
        assert [(cf.edits, cf.pixel) for cf in found[0]] == [(cf.edits, cf.pixel) for cf in found[1]]
    scores = json.loads((made[0].folder / "metrics.json").read_text())
    assert 0 <= scores["partswap"]["pixel_flip"]["all"] <= 1
