"""The gallery: a page with every kind of figure."""

from dataclasses import replace

from PIL import Image
from typer.testing import CliRunner

from partswap import Counterfactual, find_counterfactual
from partswap.cli.main import app
from partswap.counterfactual import PixelCheck
from partswap.figures import FIGURES
from partswap.studies.gallery import choose


def test_every_kind_is_on_the_page(tmp_path):
    command = ["figures", "--out", str(tmp_path), "--option", "per_class=2", "--queries", "2", "--distractors", "2"]
    made = CliRunner().invoke(app, [*command, "--cache", str(tmp_path / "cache")], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    page = (tmp_path / "index.html").read_text()
    for name in (*FIGURES.names(), "image", "composite"):
        assert f'src="{name}.png"' in page
        assert Image.open(tmp_path / f"{name}.png").width > 200
    assert "http" not in page
    assert Counterfactual.load(tmp_path / "counterfactual.json").pixel is not None


def test_a_rule_chooses_what_is_drawn(problem):
    cf = find_counterfactual(**problem)
    one = replace(cf, edits=cf.edits[:1], trace=cf.trace[-1:])
    two = replace(cf, edits=cf.edits[:1] * 2, trace=cf.trace[-1:] * 2)
    held = replace(two, pixel=PixelCheck(0.1, 0.9, cf.target, True))
    assert choose([one, two, held]) == 2
    assert choose([replace(one, flipped=False), two]) == 1
    assert choose([replace(one, flipped=False)]) == 0
