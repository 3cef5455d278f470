import importlib
import os
import subprocess
import sys

import pytest

import partswap
from partswap.errors import PluginError, UnknownNameError
from partswap.utils.registry import Registry, registered


@pytest.mark.parametrize(
    ("registry", "names"),
    [
        ("METHODS", {"goyal", "paper", "partswap"}),
        ("METRICS", {"near_kp", "same_kp", "true_part", "edits", "flip_rate", "foreground", "seconds"}),
        ("DATASETS", {"aviary"}),
        ("AUXILIARIES", {"aviary", "classifier", "deepcluster", "dinov2_vits14"}),
    ],
)
def test_everything_in_a_folder_is_found(registry, names):
    assert names <= set(getattr(partswap, registry))


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'same_kp'"):
        partswap.METRICS.get("same-kp")


def test_one_name_for_two_things_is_refused():
    registry: Registry[int] = Registry("thing", "partswap.metrics")
    registry.register("a")(1)
    with pytest.raises(ValueError, match="two things"):
        registry.register("a")(2)


PLUGIN = """
from partswap.drawing.figures.edits import edits
from partswap.metrics.base import EditMetric
from partswap.models.auxiliaries.classifier import classifier
from partswap.data.sets.aviary import Aviary
from partswap.search.methods.goyal import Goyal


class TailsOnly(EditMetric):
    title = "Tails"

    def score(self, swap):
        return None if swap.keypoints is None else float("tail" in swap.keypoints[0])


class Quick(Goyal):
    name = "acme_quick"


NUMBER = 3
"""
GROUPS = {
    "methods": ("METHODS", "Quick"),
    "metrics": ("METRICS", "TailsOnly"),
    "datasets": ("DATASETS", "Aviary"),
    "auxiliaries": ("AUXILIARIES", "classifier"),
    "figures": ("FIGURES", "edits"),
}


def install(folder, entries, name="acme-partswap"):
    """Write what pip leaves of a package: its module and its entry points, `(group, name, value)`."""
    (folder / "acme.py").write_text(PLUGIN)
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[partswap.{group}]\n{entry} = {value}" for group, entry, value in entries]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that packages are installed into, seen by this process."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "acme", raising=False)
    return tmp_path


@pytest.mark.parametrize("group", GROUPS)
def test_a_plug_in_is_a_member_that_is_imported_when_it_is_used(site, group):
    variable, value = GROUPS[group]
    install(site, [(group, "acme_quick", f"acme:{value}")])
    home = "partswap.drawing.figures" if group == "figures" else "partswap"
    package = getattr(importlib.import_module(home), variable).package
    registry = Registry("thing", package)
    registry._members.update(getattr(importlib.import_module(home), variable)._members)
    assert "acme_quick" in registry
    assert "acme_quick" in registry.names()
    assert "acme-partswap" in registered(package)["acme_quick"]
    assert "acme" not in sys.modules
    assert registry.get("acme_quick") is getattr(sys.modules["acme"], value)


def test_commands_know_plug_ins(tmp_path):
    install(tmp_path, [("methods", "acme_quick", "acme:Quick"), ("metrics", "tails_only", "acme:TailsOnly")])
    code = """
        from typer.testing import CliRunner
        from partswap.cli.main import app
        import partswap
        assert "acme_quick" in CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "300"}).output
        assert partswap.METHODS.get("acme_quick")().name == "acme_quick"
        assert partswap.METRICS.get("tails_only")().title == "Tails"
    """.replace("\n        ", "\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nowhere:Thing", "No module named 'nowhere'"),
        ("acme:Missing", "Missing"),
        ("acme:NUMBER", "acme:NUMBER is no class"),
    ],
)
def test_a_broken_plug_in_is_an_error_that_names_it_and_spoils_no_other(site, value, reason):
    install(site, [("metrics", "broken", value), ("metrics", "tails_only", "acme:TailsOnly")])
    registry = Registry("metric", "partswap.metrics")
    assert registry.get("tails_only").title == "Tails"
    with pytest.raises(PluginError, match=f"'broken' of the plug-in acme-partswap .*{reason}") as caught:
        registry.get("broken")
    assert caught.value.fix == "Mend or uninstall acme-partswap."


def test_a_plug_in_takes_no_name_that_is_taken(site):
    install(site, [("metrics", "same_kp", "acme:TailsOnly")])
    registry = Registry("metric", "partswap.metrics")
    registry._members.update(partswap.METRICS._members)
    with pytest.raises(PluginError, match=r"there is a metric called 'same_kp'.*acme-partswap"):
        registry.names()
    install(site, [("metrics", "same_kp", "acme:TailsOnly")], name="other")
    with pytest.raises(PluginError, match=r"both add 'same_kp' to partswap\.metrics"):
        registry.names()
