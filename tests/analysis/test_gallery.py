"""The gallery: a page with every kind of figure."""

import html

import pytest
from PIL import Image
from typer.testing import CliRunner

from partswap import Counterfactual
from partswap.cli.main import app
from partswap.drawing.figures import FIGURES
from partswap.metrics.clarity import CRITERIA, RULE, clarity, clearest_first
from partswap.runs.config import RunConfig
from partswap.runs.context import open_run_context
from partswap.runs.run import plan_run


@pytest.fixture(scope="module")
def page(tmp_path_factory, aviary_cache):
    folder = tmp_path_factory.mktemp("figures")
    command = ["figures", "--out", str(folder), "--option", "per_class=2", "--queries", "3", "--distractors", "2"]
    done = CliRunner().invoke(app, [*command, "--cache", str(aviary_cache)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder / "index.html"


def test_every_kind_is_on_the_page(page):
    text = page.read_text()
    for name in (*FIGURES.names(), "image", "composite"):
        assert f'src="{name}.png"' in text
        assert Image.open(page.parent / f"{name}.png").width > 200
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text
    assert Counterfactual.load(page.parent / "counterfactual.json").pixel is not None


def test_a_rule_chooses_what_is_drawn_and_the_page_tells_it(page, aviary_cache):
    """The explanation on the page is the first by the rule, found once more by hand."""
    folder = page.parent
    config = RunConfig(data="aviary", model="aviary:vgg", queries=3, distractors=2, options={"per_class": 2})
    bench = open_run_context(config.with_(cache=aviary_cache))
    tasks = plan_run(config, bench)[0].tasks
    drawn = Counterfactual.load(folder / "counterfactual.json")
    facts = [bench.facts.evidence(task) for task in tasks]
    clear = []
    for task in tasks:
        canvas = [bench.explainer.preprocess.crop(bench.data.image(k)) for k in (task.query, *task.distractors)]
        clear.append(bench.explainer.explain(canvas[0], canvas[1:], task.target, pixel=True))
    first = clearest_first(clear, facts)[0]
    assert [(e.query_cell, e.distractor_cell) for e in drawn.edits] == [
        (e.query_cell, e.distractor_cell) for e in clear[first].edits
    ]
    text = page.read_text()
    assert RULE in html.unescape(text)
    assert f"It meets {clarity(drawn, facts[first]).criteria} of {CRITERIA} criteria" in text
