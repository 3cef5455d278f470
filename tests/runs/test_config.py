"""Configurations: from files and flags, checked before anything is computed."""

from pathlib import Path

import pytest

from partswap.errors import FileFormatError, SettingError, UnknownNameError
from partswap.models.precision import check_device, devices
from partswap.runs.config import RunConfig, read_config
from partswap.runs.run import run
from partswap.search.methods.vandenhende import Vandenhende

FILE = """\
# a run
data: aviary
options: {per_class: 3}
model: aviary:vgg
methods: [goyal, paper]
settings:
  paper: {keep: 0.1, tau: 5e-2}
on: local
out: somewhere
"""


def write(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def test_a_file_is_read_and_flags_win(tmp_path):
    path = write(tmp_path, FILE)
    config = read_config(path)
    assert (config.data, config.methods, config.on, config.out) == (
        "aviary",
        ("goyal", "paper"),
        "local",
        Path("somewhere"),
    )
    assert config.build_methods()["paper"] == Vandenhende(keep=0.1, tau=0.05)  # a word to YAML, a number to us
    flags = {"seed": 4, "queries": None, "options": ["per_class=5", "seed=1"], "methods": [], "out": Path("there")}
    changed = read_config(path, {**flags, "settings": ["paper.lam=0.2", "goyal.screen=null"]})
    assert changed.options == {"per_class": 5, "seed": 1}
    assert changed.settings == {"paper": {"keep": 0.1, "tau": "5e-2", "lam": 0.2}, "goyal": {"screen": None}}
    assert (changed.seed, changed.methods, changed.out) == (4, ("goyal", "paper"), Path("there"))
    assert read_config(None, {"data": "aviary", "model": "aviary:vgg"}).methods == ("partswap",)


def test_a_temperature_of_the_configuration_is_that_of_every_method_that_has_one():
    config = RunConfig(data="aviary", model="aviary:vgg", methods=("paper", "goyal"))
    assert config.build_methods()["paper"] == Vandenhende()
    assert config.with_(tau=0.3).build_methods()["paper"] == Vandenhende(tau=0.3)


def test_a_record_comes_back(tmp_path):
    config = read_config(write(tmp_path, FILE))
    assert RunConfig.from_record(config.record()) == config
    assert {"path", "model", "weights", "cache", "out", "workers", "on", "address"}.isdisjoint(config.identity_fields())
    assert {"data", "seed", "shard", "methods", "settings", "device"} <= set(config.identity_fields())


def test_what_earlier_versions_recorded_is_read_and_recorded_the_same():
    stored = {
        "data": "aviary", "path": "a/b", "split": "test", "options": {"per_class": 3, "share": 0.5, "x": None},
        "model": "aviary:vgg", "weights": None, "layer": None, "auxiliary": "moco=x@layer3", "tau": 0.2,
        "methods": ["paper", "hard"], "settings": {"paper": {"keep": 0.1, "lam": 0}, "hard": {"by": "parts"}},
        "distractors": 20, "selection": "confusion", "queries": 5, "seed": 0, "precision": "auto", "device": "cuda",
        "shard": 20, "cache": "c", "out": "out/run", "workers": 2, "on": "local", "address": None,
    }  # fmt: skip
    config = RunConfig.from_record(stored)
    assert repr(config.record()) == repr(stored)  # tables find their runs by what this text is hashed to
    with pytest.raises(SettingError, match=r"no field 'grid' \(in its record\)"):
        RunConfig.from_record({**stored, "grid": 7})


def test_a_changed_configuration_is_checked_like_a_new_one():
    config = RunConfig(data="aviary", model="aviary:vgg")
    assert config.with_(seed=3, out="there") == RunConfig(data="aviary", model="aviary:vgg", seed=3, out=Path("there"))
    with pytest.raises(SettingError, match="seed is -1"):
        config.with_(seed=-1)
    with pytest.raises(SettingError, match="no field 'sed'"):
        config.with_(sed=1)


def test_where_weights_lie_decides_nothing():
    here, there, layer = (
        RunConfig(data="aviary", model="aviary:vgg", auxiliary=f"moco={text}") for text in ("a", "b/c", "a@layer3")
    )
    assert here.identity_fields() == there.identity_fields() != layer.identity_fields()
    assert layer.identity_fields()["auxiliary"] == "moco@layer3"


def test_a_device_that_is_not_there_is_refused(tmp_path):
    assert check_device("cpu") == "cpu"
    assert check_device("auto") in ("cpu", "cuda", "mps")
    with pytest.raises(SettingError, match="device is 'tpu'"):
        RunConfig(data="aviary", model="aviary:vgg", device="tpu")
    missing = next(kind for kind in ("mps", "cuda") if kind not in devices())
    with pytest.raises(SettingError, match=f"there is no {missing} device here"):
        run(RunConfig(data="aviary", model="aviary:vgg", device=missing, out=tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("distractor: 3", r"no field 'distractor' \(line 10 of .*run.yaml\). Did you mean 'distractors'"),
        ("seed: many", r"seed is 'many' \(line 10 of .*\). Give a whole number"),
        ("seed: 1.5", "seed is 1.5 "),
        ("seed: yes", "seed is True "),
        ("seed: -1", "seed is -1. Use 0 or more"),
        ("queries: 0", "queries is 0"),
        ("tau: warm", r"tau is 'warm' \(line 10"),
        ("tau: 0", "tau is 0"),
        ("layer: 3", r"layer is 3 \(line 10 .* Give text"),
        ("selection: confusoin", "selection is 'confusoin'. Did you mean 'confusion'"),
        ("precision: half", "precision is 'half'"),
        ("shard: [1]", r"shard is \[1\]"),
        ("seed: 1\nseed: 2", r"seed is given twice \(line 11"),
        ("cache: 7", "cache is 7 .* Give a path"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, line, message):
    with pytest.raises(SettingError, match=message):
        read_config(write(tmp_path, FILE + line + "\n"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "avairy"}, "no data set called 'avairy'. Did you mean 'aviary'"),
        ({"methods": ("papr",)}, "no method called 'papr'. Did you mean 'paper'"),
        ({"methods": ()}, "Name at least one"),
        ({"methods": ("paper", "paper")}, "none twice"),
        ({"settings": {"paper": {"kep": 0.1}}}, "paper has no setting 'kep'. Did you mean 'keep'"),
        ({"settings": {"paper": {"keep": 2}}}, "keep is 2"),
        ({"settings": {"paper": {"lam": "much"}}}, "paper.lam is 'much'"),
        ({"settings": {"goyal": {"screen": 3}}}, "'goyal', which is not run"),
        ({"on": "moon"}, "on is 'moon'"),
    ],
)
def test_values_that_make_no_sense_are_refused(change, message):
    with pytest.raises((SettingError, UnknownNameError), match=message):
        RunConfig(**{"data": "aviary", "model": "aviary:vgg", "methods": ("paper",), **change})


def test_missing_fields_and_broken_files_are_named(tmp_path):
    with pytest.raises(SettingError, match=r"model is missing. .* pass --model"):
        read_config(None, {"data": "aviary"})
    with pytest.raises(SettingError, match="Write NAME=VALUE"):
        read_config(None, {"data": "aviary", "model": "x", "options": ["per_class"]})
    with pytest.raises(SettingError, match="no method that is run has the setting 'keep'"):
        read_config(None, {"data": "aviary", "model": "x", "methods": ["goyal"], "settings": ["keep=1"]})
    with pytest.raises(SettingError, match="methods is 3"):
        read_config(write(tmp_path, "data: aviary\nmodel: x\nmethods: 3\n"))
    with pytest.raises(SettingError, match=r"settings is \{'paper': 3\}"):
        read_config(write(tmp_path, "data: aviary\nmodel: x\nsettings: {paper: 3}\n"))
    with pytest.raises(FileFormatError, match="not valid YAML"):
        read_config(write(tmp_path, "data: [aviary"))
    with pytest.raises(FileFormatError, match="holds no fields"):
        read_config(write(tmp_path, "- data"))
    with pytest.raises(FileFormatError, match="no file"):
        read_config(tmp_path / "none.yaml")


def test_a_setting_without_a_method_is_for_all_that_have_it(tmp_path):
    birds = {"data": "aviary", "model": "aviary:vgg", "methods": ["partswap", "goyal"]}
    config = read_config(None, {"settings": ["beam=4", "max_edits=3", "goyal.max_edits=2"], **birds})
    assert config.settings == {"partswap": {"beam": 4, "max_edits": 3}, "goyal": {"max_edits": 2}}
    assert config.build_methods()["partswap"].beam == 4
    # What is said for one method wins, in whatever order; flags win over the file.
    turned = read_config(None, {"settings": ["goyal.max_edits=2", "max_edits=3"], **birds})
    assert turned.settings == {"partswap": {"max_edits": 3}, "goyal": {"max_edits": 2}}
    path = write(tmp_path, "data: aviary\nmodel: aviary:vgg\nsettings: {partswap: {beam: 2, lam: 0.1}}\n")
    assert read_config(path, {"settings": ["beam=4"]}).settings == {"partswap": {"beam": 4, "lam": 0.1}}
    with pytest.raises(SettingError, match=r"no method that is run has the setting 'beem' .* Did you mean 'beam'"):
        read_config(None, {"settings": ["beem=4"], **birds})


def test_a_field_that_came_later_leaves_earlier_records_as_they_are():
    config = RunConfig(data="aviary", model="aviary:vgg")
    assert "only" not in config.record()
    assert "only" not in config.identity_fields()
    wrong = config.with_(only="wrong")
    assert wrong.record()["only"] == wrong.identity_fields()["only"] == "wrong"
    assert RunConfig.from_record(wrong.record()) == wrong
    with pytest.raises(SettingError, match=r"only is 'rong'. Did you mean 'wrong'"):
        config.with_(only="rong")


def test_paths_become_absolute_where_they_are_found_and_decide_nothing(tmp_path, monkeypatch):
    for folder in ("birds", "nets/vgg", "nets/hf", "detector"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("weights.pth", "mine.py", "resnet50"):
        (tmp_path / file).touch()
    texts = {"path": "birds", "model": "nets/vgg", "weights": "weights.pth", "auxiliary": "parts=detector@parts"}
    config = RunConfig(data="folder", **texts)
    monkeypatch.chdir(tmp_path)
    found = config.anchored()
    assert (found.path, found.model) == (tmp_path / "birds", str(tmp_path / "nets/vgg"))
    assert (found.weights, found.auxiliary) == (str(tmp_path / "weights.pth"), f"parts={tmp_path}/detector@parts")
    assert found.identity_fields() == config.identity_fields()
    for model, expected in {
        "hf:nets/hf": f"hf:{tmp_path}/nets/hf",
        "mine.py:build": f"{tmp_path}/mine.py:build",
        "resnet50": "resnet50",  # a file of that name is not what is meant
        "mine:build": "mine:build",
        "aviary:vgg": "aviary:vgg",
    }.items():
        assert config.with_(model=model, weights="default").anchored().model == expected
    monkeypatch.chdir("/")
    assert config.anchored() == config  # nothing is there
    assert config.anchored(tmp_path) == found
    assert found.anchored() == found
