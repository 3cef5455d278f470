"""From runs to a report: what is in it, and what is said of runs that are empty or unfinished."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from colorsys import rgb_to_hls
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from typer.testing import CliRunner

from partswap.apps.report import collect_runs, write_report
from partswap.apps.report.collect import run_labels
from partswap.cli.main import app
from partswap.drawing.palette import EDITS, TARGET, TARGET_DARK
from partswap.errors import PartswapError, SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.metrics import METRICS
from partswap.runs.context import open_run_context
from partswap.runs.folder import read_run
from partswap.runs.run import _doubts, run
from report_files import make_report


@pytest.fixture(scope="module")
def collected(whole_run):
    return collect_runs([whole_run.out])


def copied(run, folder: Path) -> Path:
    """Return a copy of a run's folder."""
    shutil.copytree(run.out, folder)
    return folder


def test_everything_that_was_found_is_in_it(collected, whole_run):
    run = read_run(whole_run.out)
    assert [source.method for source in collected.sources] == ["goyal", "paper"]
    assert len(collected.cases) == 11
    for place, method in enumerate(run.methods):
        mine = [e for e in collected.explanations if e["source"] == place]
        for record, cf in zip(mine, run.counterfactuals(method), strict=True):
            classes = list(collected.classes)
            assert (classes[record["from"]], classes[record["to"]]) == (
                cf.class_name(cf.query_class),
                cf.class_name(cf.target),
            )
            assert record["p"] == pytest.approx([step.target_probability for step in (cf.before, *cf.trace)], abs=1e-5)
            assert [e[0] for e in record["edits"]] == [e.query_cell for e in cf.edits]
            assert len(record["parts"]) == len(cf)
    assert collected.notices == []


def test_each_image_is_there_once(collected, whole_run):
    run = read_run(whole_run.out)
    used = set()
    for method in run.methods:
        for task, cf in run.explained(method).values():
            used |= {task.query, *(task.distractors[e.distractor_image] for e in cf.edits)}
    assert len(collected.thumbnails) == len(used)


def test_metrics_are_those_of_the_run(collected, whole_run):
    stored = json.loads((whole_run.out / "metrics.json").read_text())
    for source in collected.sources:
        for name in METRICS.names():
            assert source.scores[name].all == stored[source.method][name]["all"]


def test_several_runs_stand_side_by_side(whole_run, tmp_path):
    report = collect_runs([whole_run.out, copied(whole_run, tmp_path / "again")])
    assert len(report.cases) == 11
    assert len(report.sources) == 4
    assert len({source.title for source in report.sources}) == 4
    assert "Goyal et al. (again)" in [source.title for source in report.sources]


def test_an_unfinished_run_says_what_is_missing(whole_run, tmp_path):
    folder = copied(whole_run, tmp_path / "half")
    for path in sorted((folder / "edits" / "method=paper").iterdir())[4:]:
        path.unlink()
    (folder / "metrics.json").unlink()
    report = collect_runs([folder])
    assert len(report.explanations) == 15
    assert "half is unfinished: paper has 4 of 11 explanations" in report.notices[0]
    # The rest of the metrics are computed from what is there.
    assert report.sources[1].scores["edits"].count <= 4
    assert report.notices[0] in write_report(report, tmp_path / "half.html").read_text()


def test_doubts_about_the_preprocessing_are_notices(whole_run, tmp_path):
    assert "doubts" not in read_run(whole_run.out).record
    folder = copied(whole_run, tmp_path / "doubtful")
    record = json.loads((folder / "run.json").read_text())
    logits, labels = np.eye(4)[[0, 1, 1, 1, 1]], np.array([0, 0, 2, 3, 0])
    record["doubts"] = _doubts(Preprocess(224, 256, assumed="as for ImageNet"), logits, labels)
    (folder / "run.json").write_text(json.dumps(record))
    notices = collect_runs([folder]).notices
    assert [text[:40] for text in notices] == [
        "preprocessing is assumed, as for ImageNe",
        "1 of 5 images of known classes (by folde",
    ]
    assert _doubts(Preprocess(), np.eye(4), np.arange(4)) == []


def test_a_run_without_explanations_is_an_error(whole_run, tmp_path):
    folder = copied(whole_run, tmp_path / "empty")
    shutil.rmtree(folder / "edits")
    with pytest.raises(PartswapError, match=r"empty holds no explanation yet \(0 of 22\)"):
        collect_runs([folder])
    with pytest.raises(PartswapError, match="holds no run"):
        collect_runs([tmp_path])
    with pytest.raises(SettingError, match="given twice"):
        collect_runs([whole_run.out, whole_run.out])
    with pytest.raises(SettingError, match="no run to report on"):
        collect_runs([])


def test_runs_are_told_apart_by_the_ends_of_their_paths():
    assert run_labels([Path("out/vgg/run"), Path("out/resnet/run")]) == ["vgg/run", "resnet/run"]
    assert run_labels([Path("out/a"), Path("out/b")]) == ["a", "b"]


def test_the_command_writes_a_folder(whole_run, tmp_path):
    done = CliRunner().invoke(app, ["report", str(whole_run.out), "--out", str(tmp_path / "page"), "--title", "Birds"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<h1>Birds</h1>" in page
    assert len(list((tmp_path / "page" / "images").iterdir())) > 11


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(SettingError, match=r"thesis\.tex"):
        write_report(make_report(3), tmp_path)
    (tmp_path / "page.html").mkdir()
    with pytest.raises(SettingError, match="is a folder"):
        write_report(make_report(3), tmp_path / "page.html")


def test_a_report_is_written_over_an_older_one(tmp_path):
    write_report(make_report(12), tmp_path / "page")
    write_report(make_report(3), tmp_path / "page")
    assert len(list((tmp_path / "page" / "images").iterdir())) == 9


def test_a_single_file_needs_no_other(tmp_path):
    page = write_report(make_report(20), tmp_path / "report.html").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", page.partition("<script>(function")[0])
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|import\(", page)


# -- mistakes ---------------------------------------------------------------------------------------------------------


def rows_of_mistakes(page: str) -> list[tuple[str, str, int]]:
    """Return what the page says the model takes for what: true class, what it says, how many images."""
    section = page.partition('<section id="mistakes"')[2].partition("</section>")[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td class="count"><b>(\d+)</b>', section)
    return [(true, predicted, int(count)) for true, predicted, count in rows]


def test_the_mistakes_are_those_of_the_model(collected, whole_run, tmp_path):
    bench = open_run_context(whole_run)
    labels, said = bench.data.labels().tolist(), bench.encodings.logits.argmax(1).tolist()
    names = bench.data.classes
    counted = Counter((names[true], names[says]) for true, says in zip(labels, said, strict=True) if true != says)
    page = write_report(collected, tmp_path / "page.html").read_text()
    rows = rows_of_mistakes(page)
    assert {(true, says): count for true, says, count in rows} == counted
    assert [count for *_, count in rows] == sorted(counted.values(), reverse=True)
    # Pairs of the explanations are nearest classes, most of which the model never takes for each other.
    classes = list(collected.classes)
    explained = {(classes[e["from"]], classes[e["to"]]) for e in collected.explanations}
    assert not explained <= set(counted)
    assert not any(e.get("mistake") for e in collected.explanations)
    assert "None of them is explained in this report" in page
    assert f"<b>Mistakes:</b> {sum(counted.values())} of 80 images, first of all" in page
    assert collected.data()["mistakes"][0] == collected.data()["mistakes"][1] != []


def test_the_page_calls_no_nearest_class_a_confusion(collected, tmp_path):
    page = write_report(collected, tmp_path / "page.html").read_text()
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)
    assert "onfus" not in text
    assert "each towards the nearest class of its own" in text
    assert "if it never is, the one with the highest mean probability" in text


def test_a_run_of_an_earlier_version_says_that_its_mistakes_are_not_known(whole_run, tmp_path):
    folder = copied(whole_run, tmp_path / "earlier")
    (folder / "confusion.json").unlink()
    report = collect_runs([folder])
    page = write_report(report, tmp_path / "page.html").read_text()
    assert "earlier does not say which mistakes the model makes" in page
    assert rows_of_mistakes(page) == []
    assert report.data()["mistakes"] == [None, None]
    # The same model in another run that does say: the two share what is known.
    both = collect_runs([folder, whole_run.out])
    assert [one.confusion for one in both.mistakes] == [read_run(whole_run.out).confusion]


def test_a_run_of_both_keeps_mistakes_apart(whole_run, tmp_path):
    one_edit = {"methods": ("goyal",), "settings": {"goyal": {"max_edits": 1}}}
    config = whole_run.with_(out=tmp_path / "both", only="all", queries=None, **one_edit)
    bench = open_run_context(config)
    labels, said = bench.data.labels(), bench.encodings.logits.argmax(1).numpy()
    wrong = set(np.flatnonzero(labels != said).tolist())
    explained = run(config, bench=bench).explained("goyal")
    report = collect_runs([config.out])
    marked = [bool(e.get("mistake")) for e in report.explanations]
    assert marked == [task.query in wrong for task, _ in explained.values()]
    assert 0 < sum(marked) < len(marked)
    scores = report.scores_by_kind()
    assert scores[True][0]["flip_rate"].count == sum(marked)
    assert scores[False][0]["flip_rate"].count == len(marked) - sum(marked)
    assert f"{sum(marked)} images that the model gets wrong, each towards its true class." in report.note
    page = write_report(report, tmp_path / "page.html").read_text()
    assert page.count('<table class="metrics">') == 4
    assert f"<li><b>{sum(marked)}</b> mistakes</li>" in page
    rows = rows_of_mistakes(page)
    links = re.findall(r'<a href="#from=([^"]*?)&amp;to=([^"]*?)&amp;is=wrong">(\d+) explained</a>', page)
    assert {(unquote(to), unquote(start)): int(count) for start, to, count in links} == {
        (true, says): count for true, says, count in rows
    }  # every mistake is explained here: as many as there are


def test_the_note_says_how_the_nearest_class_was_chosen(whole_run, tmp_path):
    folder = copied(whole_run, tmp_path / "alike")
    record = json.loads((folder / "run.json").read_text())
    record["settings"]["selection"] = "attributes"
    (folder / "run.json").write_text(json.dumps(record))
    assert "the one with the most similar attributes" in collect_runs([folder]).note


def test_the_page_has_the_colors_of_every_surface(tmp_path):
    page = write_report(make_report(3), tmp_path / "page.html").read_text()
    assert f"--target:light-dark({TARGET},{TARGET_DARK});" in page
    assert "--flip: var(--target);" in page
    assert json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["colors"] == list(EDITS)
    # Green is for the target alone: no method and no edit has it.
    for name, light, dark in re.findall(r"--(s\d): light-dark\((#\w+), (#\w+)\)", page):
        for color in (light, dark):
            hue, _, saturation = rgb_to_hls(*(int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)))
            assert saturation < 0.2 or not 0.2 < hue < 0.5, (name, color)
