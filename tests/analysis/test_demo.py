"""The demo and its report, in a terminal and in a browser."""

import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from partswap import Explainer
from partswap.analysis.demo import results_table, run_demo
from partswap.apps.report import collect_demo, write_report
from partswap.metrics.clarity import RULE, clarity

runner = CliRunner()


@pytest.fixture(scope="module")
def result():
    return run_demo(queries=20, distractors=6, per_class=8)


@pytest.fixture(scope="module")
def report(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "new" / "report.html"
    return write_report(collect_demo(result, title="birds"), path)


def test_the_paper_beats_goyal_on_same_kp(result):
    goyal, paper = result.scores["goyal"]["same_kp"], result.scores["paper"]["same_kp"]
    assert paper.all >= 2 * goyal.all
    assert paper.single >= 2 * goyal.single


def test_the_table_names_the_methods(result):
    out = io.StringIO()
    Console(file=out, width=140).print(results_table(result.scores, title=result.title))
    assert "20 birds, shipped vgg classifier" in out.getvalue()
    assert all(name in out.getvalue() for name in ("Goyal et al.", "Vandenhende et al.", "partswap", "True-part"))


def test_explanations_flip(result):
    assert all(len(rows) == 20 for rows in result.explained.values())
    assert all(cf.flipped for cf, _ in result.explained["partswap"])
    # A single distractor may not be enough to flip a position-dependent head.
    assert sum(cf.flipped for cf, _ in result.explained["goyal"]) >= 18


def test_the_readme_s_example_is_chosen_by_the_rule_that_the_docs_tell(result):
    shown = result.clearest()
    explainer = Explainer("aviary:vgg", auxiliary="none")
    ranks = [clarity(explainer.pixel_check(cf), evidence) for cf, evidence in result.explained["partswap"]]
    place = ranks.index(max(ranks))
    assert shown.edits == result.explained["partswap"][place][0].edits
    assert shown.pixel is not None
    root = Path(__file__).parents[2]
    assert RULE in (root / "docs" / "figures.md").read_text()
    assert "docs/figures.md" in (root / "README.md").read_text().partition("demo.png")[2].partition("</sub>")[0]


def test_the_report_needs_no_other_file(report):
    page = report.read_text()
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page.partition("<script>(function")[0])
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert len(data["cases"]) == 20
    assert sorted((e["case"], e["source"]) for e in data["explanations"]) == [
        (c, s) for c in range(20) for s in range(3)
    ]
    pictures = re.findall(r'<script type="application/json" id="images-\d+">(.*?)</script>', page, re.S)
    assert sum(len(json.loads(shard)) for shard in pictures) == len(data["sizes"])
    assert all(edit[1] is not None for e in data["explanations"] for edit in e["edits"])


def test_the_report_opens_in_a_browser(report, chromium, tmp_path):
    shot = tmp_path / "shot.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [chromium, *flags, "--window-size=1200,1600", f"--screenshot={shot}", report.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    from PIL import Image

    picture = Image.open(shot).convert("RGB")
    assert picture.size == (1200, 1600)
    assert picture.resize((300, 400)).getcolors(2000) is None  # birds, not a blank page
    dump = subprocess.run(
        [chromium, *flags, "--dump-dom", report.as_uri()],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert "Vandenhende et al." in dump
    assert dump.count('<article class="card wide"') >= 6  # those near the screen, each with all methods
    assert "The two classes truly differ in" in dump
