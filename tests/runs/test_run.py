"""Runs: complete, resumable, the same bytes whoever made them."""

import csv
import errno
import json
import multiprocessing as mp
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.dataset
import pytest
import torch
from sklearn.cluster import KMeans
from torch import nn
from typer.testing import CliRunner

import trees
import user_files
from dying import die
from partswap.analysis.compare import compare_runs, paired_bootstrap
from partswap.analysis.tables import explained_text, metrics_table, missing_text, skipped_text
from partswap.cli.main import app
from partswap.data.sets.aviary import Aviary
from partswap.errors import FileFormatError, PartswapError, SettingError
from partswap.grid import GridShape
from partswap.metrics import METRICS
from partswap.results.counterfactual import Counterfactual, Edit, Step
from partswap.runs import records, workers
from partswap.runs.context import open_run_context
from partswap.runs.folder import Run, exclusive_lock, open_or_create
from partswap.runs.payload import FrozenNetwork, Shard, WorkerPayload, one_thread
from partswap.runs.run import plan_run, read_run, run
from partswap.runs.sources import sources_of
from partswap.runs.tasks import Task, explain_tasks, plan_tasks
from partswap.runs.workers import explain_here
from partswap.search.methods.hard import Hard
from partswap.utils.files import write_json
from partswap.utils.notes import Note


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def timeless(cf):
    return replace(cf, seconds=0.0)


@pytest.fixture(scope="module")
def bench(whole_run):
    return open_run_context(whole_run)


@pytest.fixture(scope="module")
def bundle(whole_run, bench):
    tasks = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=2).first(11)
    return WorkerPayload.of(bench, tasks.tasks, whole_run.build_methods())


# -- what is in the folder ------------------------------------------------------------------------------------------


def test_counterfactuals_come_back_exactly(whole_run, bench, bundle):
    made = read_run(whole_run.out)
    assert made.complete
    assert len(made.shards()) == 22
    for name, method in bundle.methods.items():
        found = explain_tasks(bench.explainer, bench.encodings, bundle.tasks[:3], method)
        for (task, direct), read in zip(found, made.counterfactuals(name)[:3], strict=True):
            assert timeless(read) == timeless(direct)
            assert read.seconds > 0
            assert made.explained(name)[bundle.tasks.index(task)][0].query == task.query
    with pytest.raises(SettingError, match="no method 'partswap'"):
        made.counterfactuals("partswap")


def test_a_run_is_one_data_set_with_a_row_per_edit(whole_run):
    made = read_run(whole_run.out)
    rows = pyarrow.dataset.dataset(whole_run.out / "edits", partitioning="hive").to_table().to_pylist()
    assert {row["method"] for row in rows} == {"goyal", "paper"}
    explanations = [cf for method in made.methods for cf in made.counterfactuals(method)]
    assert len(rows) == sum(len(cf) for cf in explanations)
    first = next(row for row in rows if row["method"] == "paper" and row["step"] == 1)
    assert first["name"] == f"test/0/{first['query']:05d}"
    assert first["distractor"] in first["distractors"]
    assert 0 <= first["distractor_cell"] < 49
    record = json.loads((whole_run.out / "run.json").read_text())
    assert record["settings"]["methods"] == ["goyal", "paper"]
    assert set(record["versions"]) >= {"partswap", "torch", "python"}
    assert record["tasks"] == 11
    left_out = ("misclassified_queries", "queries_without_distractors", "not_drawn")
    assert sum(record["skipped"][reason] for reason in left_out) + 11 == record["images"]
    metrics = json.loads((whole_run.out / "metrics.json").read_text())
    assert metrics["paper"]["same_kp"]["count"] == sum(len(cf) for cf in made.counterfactuals("paper"))
    for figure in ("goyal", "paper", "metrics"):
        assert (whole_run.out / "figures" / f"{figure}.png").stat().st_size > 5_000


@pytest.mark.usefixtures("without_figures")
def test_a_hard_constraint_by_parts_is_kept_in_other_processes(whole_run, bench, tmp_path):
    made = run(whole_run.with_(out=tmp_path, methods=("hard",), settings={"hard": {"by": "parts"}}, workers=2))
    outside = 0
    for task, cf in made.explained("hard").values():
        mine, theirs = bench.facts.parts(task.query), [c for k in task.distractors for c in bench.facts.parts(k)]
        strangers = sum(not mine[edit.query_cell] & theirs[edit.distractor_cell] for edit in cf.edits)
        assert strangers == cf.source.outside
        outside += strangers
    assert outside < sum(len(cf) for cf in made.counterfactuals("hard"))


@pytest.mark.usefixtures("without_figures")
def test_clusters_of_a_hard_constraint_are_of_the_whole_split(whole_run, bench, tmp_path):
    made = run(whole_run.with_(out=tmp_path, methods=("hard",), settings={"hard": {"clusters": 12}}, queries=4))
    assert len(bench.encodings.aux) == len(bench.data)
    cells = bench.encodings.aux.float().permute(0, 2, 3, 1).flatten(0, 2)
    kmeans = KMeans(12, random_state=whole_run.seed, n_init=1, max_iter=30)
    centroids = torch.from_numpy(kmeans.fit(nn.functional.normalize(cells, dim=1).numpy()).cluster_centers_)
    tasks = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=2).first(4).tasks
    direct = explain_tasks(bench.explainer, bench.encodings, tasks, Hard(clusters=12, centroids=centroids))
    found = made.counterfactuals("hard")
    assert [cf.edits for cf in found] == [cf.edits for _, cf in direct]
    assert len(found) == 4
    for cf in found:
        assert (cf.settings["clusters"], cf.settings["fitted"]) == (12, True)


def test_a_run_stores_what_its_model_takes_for_what(whole_run, bench, tmp_path):
    labels, said = bench.data.labels().tolist(), bench.encodings.logits.argmax(1).tolist()
    counted = Counter((true, predicted) for true, predicted in zip(labels, said, strict=True) if true != predicted)
    made = read_run(whole_run.out)
    assert {(m.true, m.predicted): m.images for m in made.confusion.mistakes} == counted
    assert counted
    assert made.confusion.classes == tuple(bench.data.classes)
    assert made.confusion.images == tuple(labels.count(k) for k in range(len(bench.data.classes)))
    assert made.confusion.wrong == sum(counted.values()) == made.record["skipped"]["misclassified_queries"]
    assert [m.images for m in made.confusion.mistakes] == sorted(counted.values(), reverse=True)
    # A folder of an earlier version has none; the same command adds it, and touches nothing else.
    folder = tmp_path / "earlier"
    shutil.copytree(whole_run.out, folder)
    (folder / "confusion.json").unlink()
    assert read_run(folder).confusion is None
    run(whole_run.with_(out=folder))
    assert contents(folder) == contents(whole_run.out)
    (folder / "confusion.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"confusion\.json holds no confusion counts\. Delete it"):
        _ = read_run(folder).confusion


def make(edits, flipped=True):
    trace = tuple(Step(0.1 + 0.2 * k, 3 + k, None if k else -1.5) for k in range(len(edits)))
    source = {
        "partswap": "1", "evaluator": "pooled", "query": "7", "distractors": ["4", "9"], "distractor_indices": [0, 1],
        "model": "Net", "layer": "a.b", "auxiliary": None, "class_names": {str(k): f"class {k}" for k in (3, 5)},
    }  # fmt: skip
    named = {3, 5, *(step.predicted for step in trace)}
    source["class_names"] = {str(k): f"class {k}" for k in sorted(named)}
    return Counterfactual(3, 5, GridShape(2, 2), 2, tuple(edits), Step(1 / 3, 3), trace, flipped, "paper",
                          {"lam": 0.1, "keep": None}, source, 17, 0.25)  # fmt: skip


def test_explanations_without_edits_are_not_lost(tmp_path):
    found = [make([]), make([Edit(1, 6, 1), Edit(0, 2, 0)]), make([], flipped=False)]
    # A method may tell something of one explanation only.
    found[2] = replace(
        found[2], settings={"lam": 0.2}, source=replace(found[2].source, outside=3, gave_up=Note("x", "y"))
    )
    tasks = [Task(7, 5, (4, 9))] * 3
    records.write_table(records.edits_table(5, tasks, found, ["a"] * 3), tmp_path / "edits.parquet")
    records.write_table(records.timings_table(5, tasks, found), tmp_path / "timings.parquet")
    table = records.read_table(tmp_path / "edits.parquet")
    assert table["step"].to_pylist() == [0, 1, 2, 0]
    timings = records.read_table(tmp_path / "timings.parquet")
    read = records.counterfactuals_of(table, [f"class {k}" for k in range(6)], timings)
    assert list(read) == [5, 6, 7]
    assert [cf for _, cf in read.values()] == found
    assert [task for task, _ in read.values()] == tasks
    with pytest.raises(FileFormatError, match="1 of 2 edits"):
        records.counterfactuals_of(table.slice(1, 1), [f"class {k}" for k in range(6)])
    (tmp_path / "edits.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileFormatError, match="cannot be read"):
        records.read_table(tmp_path / "edits.parquet")


# -- going on -------------------------------------------------------------------------------------------------------


def run_at_leisure(config):
    """Run with a pause before every write, so that whoever counts files and kills is never behind by many."""
    write = Run.write

    def write_later(*args, **kwargs):
        time.sleep(0.1)
        write(*args, **kwargs)

    Run.write = write_later
    run(config)


@pytest.mark.parametrize("kills", [4, pytest.param(10, marks=pytest.mark.soak)])
def test_kill_nine_several_times_and_again_is_byte_for_byte_the_same(whole_run, tmp_path, kills):
    config = whole_run.with_(out=tmp_path / "cut")
    # Every attempt is a process of its own; the server has imported torch already, or this would take a minute.
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["partswap.runs.run", "partswap.training.aviary"])
    chance = random.Random(5)
    killed_with = []
    for number in range(kills):
        process = context.Process(target=run_at_leisure, args=(config.with_(workers=2 if number in (3, 7) else 1),))
        process.start()
        # After so many more files (timings and edits alternate) and a moment more: within one as well as between two.
        before = sum(1 for _ in config.out.glob("*/*/*.parquet"))
        wanted = before + chance.randint(0, 3)
        while process.is_alive() and sum(1 for _ in config.out.glob("*/*/*.parquet")) < wanted:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.join()
        killed_with.append(sum(1 for _ in config.out.glob("*/*/*.parquet")))
    assert killed_with[-1] < 44  # all kills came before the end ...
    assert len(set(killed_with)) > kills // 3  # ... and at different moments
    made = run(config)
    assert made.complete
    assert contents(config.out / "edits") == contents(whole_run.out / "edits")
    assert set(contents(config.out)) == set(contents(whole_run.out))


def test_a_finished_run_is_left_alone(whole_run):
    before = {p: p.stat().st_mtime_ns for p in whole_run.out.rglob("*")}
    run(whole_run.with_(workers=2))  # another number of workers is the same run
    assert before == {p: p.stat().st_mtime_ns for p in whole_run.out.rglob("*")}


def test_a_metric_that_is_new_is_computed_for_a_finished_run(whole_run):
    path = whole_run.out / "metrics.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({m: {k: v for k, v in found.items() if k != "near_kp"} for m, found in whole.items()}))
    run(whole_run)
    assert json.loads(path.read_text()) == whole


def test_other_settings_are_refused_and_named(whole_run, tmp_path):
    with pytest.raises(SettingError, match=r"other settings: distractors \(2 then, 3 now\), seed \(0 then, 1 now\)"):
        run(whole_run.with_(seed=1, distractors=3))
    with pytest.raises(SettingError, match=r"settings \(\{'goyal'"):
        run(whole_run.with_(settings={}))
    record = json.loads((whole_run.out / "run.json").read_text())
    open_or_create(tmp_path, record)
    with pytest.raises(SettingError, match=r"fingerprint of model \(\w+ then, other now\)"):
        open_or_create(tmp_path, {**record, "fingerprints": {**record["fingerprints"], "model": "other"}})
    other = {**record["methods"], "paper": {**record["methods"]["paper"], "lam": 0.3}}  # a default that has changed
    with pytest.raises(SettingError, match=r"settings of paper \(\{.*'lam': 0.4.* now"):
        open_or_create(tmp_path, {**record, "methods": other})
    with pytest.raises(SettingError, match=r"version of torch"):
        open_or_create(tmp_path, {**record, "versions": {**record["versions"], "torch": "0.1"}})
    (tmp_path / "run.json").unlink()
    (tmp_path / "edits" / "method=x").mkdir(parents=True)
    (tmp_path / "edits" / "method=x" / "part-00000.parquet").touch()
    with pytest.raises(SettingError, match=r"holds edits but no run\.json"):
        open_or_create(tmp_path, record)


def test_a_full_disk_is_an_error_and_the_run_goes_on_later(whole_run, tmp_path, monkeypatch):
    whole = read_run(whole_run.out)
    made = open_or_create(tmp_path / "full", whole.record)

    def write(shard):
        task, cf = whole.explained(shard.method)[shard.start]
        made.write(shard, [task], [cf], [f"test/0/{task.query:05d}"])

    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    write(made.shards()[0])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PartswapError, match=r"is full\. Make room.* and run again: it goes on from here"):
        write(made.shards()[1])
    monkeypatch.undo()
    assert not list(made.folder.rglob("*.tmp"))
    assert made.missing() == made.shards()[1:]
    for shard in made.missing():
        write(shard)
    assert contents(made.folder / "edits") == contents(whole_run.out / "edits")


def test_only_one_process_works_in_a_folder(tmp_path):
    with exclusive_lock(tmp_path), pytest.raises(PartswapError, match="another process"), exclusive_lock(tmp_path):
        pass
    with exclusive_lock(tmp_path):
        pass
    with pytest.raises(PartswapError, match="holds no run"):
        read_run(tmp_path)
    write_json(tmp_path / "run.json", {"a": 1})
    with pytest.raises(FileFormatError, match="not about a run"):
        read_run(tmp_path)


def test_what_is_left_out_is_counted():
    labels = np.array([0, 0, 0, 1, 1, 2])
    says = torch.tensor([0, 0, 1, 0, 2, 2])
    data = SimpleNamespace(labels=lambda: labels, classes=["a", "b", "c"], attributes=lambda: None)
    encodings = SimpleNamespace(data=data, logits=nn.functional.one_hot(says, 3).float())

    class Six(SimpleNamespace):
        def __len__(self):
            return 6

    bench = SimpleNamespace(data=Six(**vars(data), skipped=[("a.jpg", "is cut off")]), encodings=encodings)
    config = SimpleNamespace(distractors=5, seed=0, queries=None, selection="confusion", only="right")
    tasks, skipped = plan_run(config, bench)  # 0 is taken for 1, of which no image is right; 2 goes to 0
    assert [task.query for task in tasks.tasks] == [5]
    assert skipped == {
        "unreadable_images": 1,
        "misclassified_queries": 3,
        "correct_queries": 0,
        "queries_without_distractors": 2,
        "classes_without_distractors": ["b"],
        "not_drawn": 0,
    }
    config.only = "wrong"  # 2 is a 0, which others are taken for; 3 and 4 are of a class of which no image is right
    tasks, skipped = plan_run(config, bench)
    assert [(task.query, task.target, sorted(task.distractors)) for task in tasks.tasks] == [(2, 0, [0, 1])]
    left = ("misclassified_queries", "correct_queries", "queries_without_distractors")
    assert [skipped[reason] for reason in left] == [0, 3, 2]
    config.only = "all"
    tasks, skipped = plan_run(config, bench)
    assert [(task.query, task.target) for task in tasks.tasks] == [(2, 0), (5, 0)]
    assert [skipped[reason] for reason in left] == [0, 0, 4]
    config.only = "right"
    encodings.logits = nn.functional.one_hot((torch.from_numpy(labels) + 1) % 3, 3).float()
    with pytest.raises(PartswapError, match="nothing to explain"):
        plan_run(config, bench)
    config.selection = "attributes"
    with pytest.raises(SettingError, match="no attributes"):
        plan_run(config, bench)


@pytest.mark.usefixtures("without_figures")
def test_mistakes_are_explained_towards_the_true_class(whole_run, tmp_path):
    config = whole_run.with_(model="aviary:resnet", options={"per_class": 3}, methods=("paper",), settings={})
    bench = open_run_context(config)
    labels, said = bench.data.labels(), bench.encodings.logits.argmax(1).numpy()
    mistakes = np.flatnonzero(labels != said).tolist()
    config = config.with_(out=tmp_path / "wrong", only="wrong", queries=None)
    made = run(config, bench=bench)
    explained = list(made.explained("paper").values())
    assert len(explained) > 3
    for task, cf in explained:
        assert task.query in mistakes
        assert cf.query_class == said[task.query] != cf.target == task.target == labels[task.query]
        assert all(labels[k] == said[k] == task.target for k in task.distractors)
    assert made.record["explained"] == {"right": 0, "wrong": len(explained)}
    assert made.record["settings"]["only"] == "wrong"
    assert made.record["skipped"]["correct_queries"] == len(bench.data) - len(mistakes)
    note = metrics_table(made).note
    assert f"{len(explained)} misclassified images of aviary test, towards their true class; aviary:resnet." in note
    assert f"Left out: {len(bench.data) - len(mistakes)} of 120 images are right" in note
    # The two classes that differ are the one it is taken for and its own.
    scores = json.loads((made.folder / "metrics.json").read_text())["paper"]
    truth = [(cf, bench.facts.evidence(task, cf.query_class)) for task, cf in explained]
    for (task, cf), (_, evidence) in zip(explained, truth, strict=True):
        assert evidence.differing == bench.data.differing_parts(cf.query_class, task.target)
        assert evidence.differing
    assert scores["true_part"]["all"] == pytest.approx(METRICS.get("true_part")().compute(truth).all)
    assert scores["true_part"]["all"] > 0
    # Another choice of images is another run, and no comparison.
    with pytest.raises(SettingError, match=r"only \(wrong then, right now\)"):
        run(config.with_(only="right"))
    with pytest.raises(SettingError, match=r"only \(right then, all now\)"):
        run(whole_run.with_(only="all"))
    right = {**made.record, "settings": {k: v for k, v in made.record["settings"].items() if k != "only"}}
    open_or_create(tmp_path / "right", right)
    with pytest.raises(SettingError, match=r"misclassified images, towards .* Compare runs with the same only"):
        compare_runs(tmp_path / "right", made.folder)
    assert "misclassified images" in compare_runs(made.folder, made.folder, samples=20).table().note


def test_all_images_are_explained_each_in_its_way(bench):
    logits, labels = bench.encodings.logits, bench.data.labels()
    right, wrong, every = (
        plan_tasks(logits, labels, distractors=2, only=only).tasks for only in ("right", "wrong", "all")
    )
    assert every == sorted([*right, *wrong], key=lambda task: task.query)
    assert right == plan_tasks(logits, labels, distractors=2).tasks
    with pytest.raises(PartswapError, match="gets all 80 images right"):
        plan_tasks(nn.functional.one_hot(torch.from_numpy(labels)).float(), labels, only="wrong")


def test_a_table_says_which_images_were_used():
    settings = {"data": "cub", "split": "test", "model": "m", "only": "all"}
    skipped = {
        "misclassified_queries": 0, "correct_queries": 0, "classes_without_distractors": [],
        "queries_without_distractors": 0, "not_drawn": 0,
    }  # fmt: skip
    record = {"settings": settings, "tasks": 5, "explained": {"right": 3, "wrong": 2}, "images": 5, "skipped": skipped}
    made = Run(None, record)
    assert "5 images of cub test: 3 images that are right and 2 misclassified ones" in explained_text(made)
    assert skipped_text(made) == "Nothing is left out."


@pytest.mark.usefixtures("without_figures")
def test_a_method_without_its_semantic_term_is_not_passed_off_as_itself(whole_run, bench, tmp_path):
    config = whole_run.with_(
        auxiliary=None, methods=("partswap", "goyal"), settings={}, queries=1, out=tmp_path / "run"
    )
    made = run(config, bench=bench.with_auxiliary(None))
    assert metrics_table(made).note.endswith("No auxiliary: partswap without the semantic term.")
    assert missing_text(read_run(whole_run.out)) == ""
    with pytest.raises(SettingError, match="paper swaps like for like"):
        run(config.with_(methods=("paper",), out=tmp_path / "paper"))
    assert not (tmp_path / "paper" / "run.json").exists()  # refused before anything is computed


# -- where it may be written ----------------------------------------------------------------------------------------


def test_a_folder_with_something_else_is_refused_and_left_as_it_is(whole_run, tmp_path):
    birds = trees.folder(tmp_path / "birds")
    before = sorted(birds.rglob("*"))
    config = whole_run.with_(out=birds)
    with pytest.raises(SettingError, match=r"birds holds something else \('001.Red_Kite'\), and no run"):
        run(config)
    with pytest.raises(SettingError, match="something else"):
        open_or_create(birds, read_run(whole_run.out).record)
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match="file is a file"):
        run(whole_run.with_(out=tmp_path / "file"))
    inside = config.with_(data="folder", path=birds, options={}, out=birds / "new" / "run")
    with pytest.raises(SettingError, match="would count as a class"):
        run(inside)
    other = tmp_path / "other"
    other.mkdir()
    write_json(other / "run.json", {"a": 1})
    with pytest.raises(FileFormatError, match="not about a run"):
        run(whole_run.with_(out=other))
    assert [p.name for p in other.iterdir()] == ["run.json"]
    assert sorted(birds.rglob("*")) == before


def test_what_a_killed_run_left_before_its_first_file_is_no_hindrance(whole_run, tmp_path):
    for leftover in (".lock", ".run.json.123.tmp"):
        (tmp_path / leftover).touch()
    made = run(whole_run.with_(out=tmp_path, methods=("goyal",), settings={}, queries=1))
    assert made.complete
    assert not list(tmp_path.glob(".run.json*"))


@pytest.mark.usefixtures("without_figures")
def test_runs_are_compared_from_anywhere(whole_run, tmp_path, monkeypatch):
    birds = tmp_path / "birds"
    for index in range(0, len(data := Aviary("test", per_class=2))):
        species = data.classes[data.label(index)].replace(" ", "_")
        (folder := birds / f"{data.label(index):03d}.{species}").mkdir(parents=True, exist_ok=True)
        data.bird(index).image.save(folder / f"{index}.png")
    for path in ("elsewhere", "there"):
        (tmp_path / path).mkdir()
    monkeypatch.chdir(tmp_path)
    settings = {"data": "folder", "path": "birds", "split": "all", "options": {}, "queries": 2, "settings": {}}
    made = run(whole_run.with_(**settings, methods=("goyal",), auxiliary=None, out="out/run"))
    assert made.record["settings"]["path"] == str(birds)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert compare_runs("../out/run", "../out/run", samples=20).names() == {"goyal": []}
    # Earlier versions recorded paths as they were given.
    path = tmp_path / "out/run/run.json"
    old = json.loads(path.read_text())
    old["settings"]["path"] = "birds"
    del old["cwd"]
    path.write_text(json.dumps(old))
    assert read_run("../out/run").config.path.samefile(birds)
    assert compare_runs("../out/run", "../out/run", samples=20).data.root.samefile(birds)
    (tmp_path / "out/run").rename(tmp_path / "there/moved")
    with pytest.raises(SettingError, match=r"are not at birds\. Go to the folder where the run was made, or make"):
        compare_runs("../there/moved", "../there/moved")
    monkeypatch.chdir(tmp_path)
    assert compare_runs("there/moved", "there/moved", samples=20).data.root.samefile(birds)
    birds.rename(tmp_path / "gone")
    path = tmp_path / "there/moved/run.json"
    path.write_text(json.dumps({**old, "settings": {**old["settings"], "path": str(birds)}}))
    with pytest.raises(SettingError, match=r"are not at .*birds\. Put them there again, or correct the path"):
        compare_runs("there/moved", "there/moved")


# -- several processes ----------------------------------------------------------------------------------------------


def test_two_workers_give_what_one_gives_even_if_one_is_killed(whole_run, bundle):
    whole = read_run(whole_run.out)
    found = {}
    shards = [Shard(method, k, k, k + 1) for method in ("goyal", "paper") for k in range(5)]
    for shard, explained in explain_here(bundle, shards, 2):
        if not found:
            mp.active_children()[0].kill()
        assert shard not in found
        found[shard] = explained
    assert set(found) == set(shards)
    for shard, explained in found.items():
        assert [timeless(cf) for cf in explained] == [timeless(whole.explained(shard.method)[shard.start][1])]


@pytest.mark.parametrize("name", ["squeezenet1_1", "test_vit"])
def test_a_network_of_others_is_built_where_nothing_was_imported_yet(name, tmp_path):
    from partswap.models.zoo import load_model

    network = load_model(name)
    (tmp_path / "network").write_bytes(pickle.dumps(FrozenNetwork.of(network)))
    code = "import pickle, sys; print(type(pickle.load(open(sys.argv[1], 'rb')).build()).__name__)"
    made = subprocess.run([sys.executable, "-c", code, tmp_path / "network"], capture_output=True, text=True)
    assert made.stdout.strip() == type(network).__name__, made.stderr


@pytest.mark.parametrize("registered", [True, False])
def test_a_network_of_a_user_s_own_file_is_explained_by_worker_processes(registered, bench, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "own")  # as one's own loader may do; workers on other machines have no such
    own = user_files.load(tmp_path / "own", f"_own_{registered}", register=registered)
    bundle = user_files.bundle_of(own, bench)
    monkeypatch.undo()
    shards = [Shard("goyal", k, k, k + 1) for k in range(4)]
    # Processes start without the file, too.
    for path in (tmp_path / "own").iterdir():
        path.unlink()
    found = {shard.number: explained for shard, explained in explain_here(bundle, shards, 2)}
    assert [[timeless(cf) for cf in found[k]] for k in range(4)] == [
        [timeless(cf)] for cf in user_files.direct(own, bench, bundle)[:4]
    ]
    assert "_own" in str([source.name for source in bundle.network.sources])


def test_only_files_of_users_travel():
    assert sources_of(["torch.nn", "json", "partswap.models.small", "timm.models", "__main__", "nowhere"]) == ()
    (mine,) = [source for source in sources_of(["trees"]) if source.name == "trees"]
    assert mine.text == Path(trees.__file__).read_text()
    assert not mine.package


def test_what_a_worker_cannot_import_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    own = user_files.load(tmp_path, "_own_gone", register=True)
    frozen = replace(FrozenNetwork.of(own.build()), sources=())
    del sys.modules["_own_gone"]
    with pytest.raises(
        PartswapError, match=r"cannot import what the classifier is made of \(No module named '_own_gone'"
    ):
        frozen.build()


def test_a_shard_that_kills_its_worker_twice_is_an_error(monkeypatch):
    monkeypatch.setattr(workers, "_serve", die)
    with pytest.raises(PartswapError, match=r"died 2 times on the same shard .* exit code 9"):
        list(explain_here(None, [Shard("a", 0, 0, 1), Shard("a", 1, 1, 2)], 2))


def test_one_thread_is_given_back():
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_networks_survive_the_journey():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Linear(4, 2, dtype=torch.bfloat16))
    network[0].weight.data = network[0].weight.data.to(memory_format=torch.channels_last)
    network.add_module("tied", network[0])
    network.register_buffer("hidden", torch.arange(3), persistent=False)
    network.register_buffer("empty", torch.zeros(0, 3))
    built = FrozenNetwork.of(network).build()
    assert built.tied is built[0]
    assert not built.training
    assert built.hidden.tolist() == [0, 1, 2]
    for (name, a), (_, b) in zip(network.state_dict().items(), built.state_dict().items(), strict=True):
        assert a.dtype == b.dtype, name
        assert torch.equal(a, b), name
    network.function = lambda x: x
    with pytest.raises(PartswapError, match="cannot be sent to other processes"):
        FrozenNetwork.of(network)


# -- comparing ------------------------------------------------------------------------------------------------------


def part_of(whole, method, folder):
    """Return a run that has only one of the methods."""
    settings = {**whole.record["settings"], "methods": [method], "settings": {}}
    made = open_or_create(folder, {**whole.record, "settings": settings})
    for shard in made.shards():
        task, cf = whole.explained(method)[shard.start]
        made.write(shard, [task], [cf], ["x"])
    return made


def test_two_runs_are_compared_on_the_images_both_explain(whole_run, tmp_path):
    whole = read_run(whole_run.out)
    goyal, paper = (part_of(whole, name, tmp_path / name) for name in ("goyal", "paper"))
    paper.path(paper.shards()[-1]).unlink()  # not finished: one image less
    command = ["compare", str(goyal.folder), str(paper.folder), "--out", str(tmp_path / "out"), "--samples", "200"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "differences-goyal-paper.png").stat().st_size > 10_000
    with (tmp_path / "out" / "compare.csv").open() as file:
        rows = {row["metric"]: row for row in csv.DictReader(file)}
    assert {"Same-KP single", "Same-KP all", "Part-IoU single", "Part-IoU all", "#Edits", "Seconds"} <= set(rows)
    assert "differ most (goyal / paper): test/" in result.output
    same = {name: float(rows["Same-KP all"][name]) for name in ("first", "second", "difference", "low", "high")}
    assert rows["Same-KP all"]["images"] == "10"
    assert same["low"] <= same["difference"] <= same["high"]
    assert same["difference"] == pytest.approx(same["second"] - same["first"])
    itself = compare_runs(goyal.folder, goyal.folder, samples=50)
    assert len(itself.differences) >= 6
    assert all(d.first == d.second and d.change.interval == (0, 0) for d in itself.differences)
    assert itself.most == {("goyal", "goyal"): []}
    other = {**whole.record["fingerprints"], "data": "other"}
    open_or_create(tmp_path / "other", {**whole.record, "fingerprints": other})
    with pytest.raises(SettingError, match="different images"):
        compare_runs(goyal.folder, tmp_path / "other")
    with pytest.raises(SettingError, match="samples=0"):
        compare_runs(goyal.folder, paper.folder, samples=0)


def test_paired_intervals_are_narrow_when_the_difference_is_steady():
    rng = np.random.default_rng(0)
    scores = rng.normal(5, 3, 200)
    first = np.stack([scores, np.ones(200)], 1)
    second = np.stack([scores + 0.5 + rng.normal(0, 0.1, 200), np.ones(200)], 1)
    low, high = paired_bootstrap(first, second, samples=400, seed=1)
    assert 0.45 < low < 0.5 < high < 0.55 or 0.47 < low < high < 0.53
    assert paired_bootstrap(first, second, samples=400, seed=1) == (low, high)
    assert paired_bootstrap(first * 0, second, samples=20) is None
