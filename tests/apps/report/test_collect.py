"""From runs to a report: what is in it, and what is said of runs that are empty or unfinished."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partswap.apps.report import collect_runs, write_report
from partswap.apps.report.collect import run_labels
from partswap.cli.main import app
from partswap.errors import PartswapError, SettingError
from partswap.metrics import METRICS
from partswap.runs.folder import read_run
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
            assert record["p"] == pytest.approx([step.probability for step in (cf.before, *cf.trace)], abs=1e-5)
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
