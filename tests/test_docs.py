"""What the documentation shows must run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "name",
    [
        "aviary",
        "results.counterfactual",
        "data.attribute_parts",
        "words.decompose",
        "words.sentences",
        "data.rle",
        "runs.config",
        "explainer.explainer",
        "utils.registry",
        "search.find",
        "cut.network",
        "utils.store",
        "results.words",
    ],
)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(f"partswap.{name}")
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert done.failed == 0
    assert done.attempted > 0


def test_the_table_of_auxiliaries_says_what_the_code_does():
    from partswap import AUXILIARIES

    text = (ROOT / "docs" / "auxiliaries.md").read_text()
    rows = {row[0]: row for row in re.findall(r"^\| `(\w+)` \|(.*)\|([^|]*)\|\s*([\d.]+) \|$", text, re.M)}
    assert rows
    for name, row in rows.items():
        assert name in AUXILIARIES
        home = importlib.import_module(AUXILIARIES.get(name).__module__)
        published = getattr(home, "PUBLISHED", None)
        if published is not None and published.url is not None:
            assert published.url in row[1]
        assert float(row[3]) == (home.TAU_TOKENS if hasattr(home, "TAU_TOKENS") else 0.1)


def test_the_readme_names_what_exists():
    import partswap
    from partswap.cli.main import app

    text = (ROOT / "README.md").read_text()
    for name in re.findall(r"partswap\.([A-Za-z_]+)", text):
        assert name in dir(partswap) or (ROOT / "src" / "partswap" / name).exists(), name
    commands = {c.name or c.callback.__name__ for c in app.registered_commands} | {
        g.name for g in app.registered_groups
    }
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        for command in re.findall(r"^partswap (\w+)", block, re.M):
            assert command in commands, command
    for image in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (ROOT / image).exists(), image
        assert (ROOT / image).stat().st_size < 300_000, image


def test_the_index_of_the_guide_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("\nLooking for")[2].partition("\n## ")[0]
    named = re.findall(r"^\| [^|`]+ \| `([^`]+)` \|$", text, re.M)
    assert len(named) >= 10
    missing = {name for name in named if not (ROOT / "src" / "partswap" / name).exists()}
    assert not missing, f"the index names what is not there: {sorted(missing)}"


def test_the_guide_says_where_registered_things_live():
    from partswap import AUXILIARIES, DATASETS, METHODS, METRICS
    from partswap.drawing.figures import FIGURES

    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.findall(r"^\| an? [a-z ]+ \| `src/([^`]+)/` \| .*@([A-Z]+)\.register", text, re.M)
    folders = {name: folder.replace("/", ".") for folder, name in table}
    registries = {"METHODS": METHODS, "METRICS": METRICS, "DATASETS": DATASETS, "AUXILIARIES": AUXILIARIES}
    registries["FIGURES"] = FIGURES
    assert folders.keys() == registries.keys()
    for name, registry in registries.items():
        homes = {registry.get(entry).__module__.rpartition(".")[0] for entry in registry.names()}
        assert homes == {folders[name]}, name
