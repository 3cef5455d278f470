"""What the documentation shows must run."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import partswap
from public_names import private_uses

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
        "explainer.one_call",
        "utils.progress",
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


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_public_names_only(page):
    text = page.read_text()
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        assert not private_uses(code), code
    dotted = set(re.findall(r"`(partswap(?:\.[a-z_]+)*\.\w+)", text))
    private = {name for name in dotted if name not in partswap.MODULES and private_uses(name)}
    assert {name for name in private if not name.startswith(partswap.MODULES)} == set()


def test_private_names_are_noticed():
    code = "import partswap\nfrom partswap.search.beam import BeamSearch\nfrom partswap import Explainer, Beam"
    assert private_uses(code) == ["partswap.search.beam.BeamSearch", "partswap.Beam"]
    assert private_uses("partswap.explain(model); partswap.find(3)") == ["partswap.find"]
    assert private_uses("from partswap.errors import PartswapError, NoSuchError") == ["partswap.errors.NoSuchError"]


def test_the_page_of_public_names_has_each_of_them():
    text = (ROOT / "docs" / "python.md").read_text()
    rows = "\n".join(row.split("|")[1] for row in text.splitlines() if row.startswith("| `"))
    listed = set(re.findall(r"`([\w.]+)`", rows))
    assert listed == {name for name in partswap.__all__ if name != "__version__"} | set(partswap.MODULES)


def test_names_for_type_checkers_are_the_public_ones():
    tree = ast.parse((ROOT / "src" / "partswap" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname or alias.name for node in block.body for alias in node.names}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert typed | {name for name in functions if name[0] != "_"} | {"__version__"} == set(partswap.__all__)
    for name in partswap.__all__:
        assert getattr(partswap, name) is not None


def test_registered_things_are_listed_by_pattern():
    assert partswap.list_methods() == partswap.METHODS.names()
    assert partswap.list_metrics("*kp*") == ["near_kp", "same_kp"]
    assert partswap.list_datasets("a*") == ["aviary"]
    assert partswap.list_auxiliaries("dino_*") == ["dino_resnet50", "dino_vits16"]
    assert "trace" in partswap.list_figures()
    assert partswap.list_figures("nothing*") == []
