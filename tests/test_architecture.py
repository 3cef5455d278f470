"""Dependence goes one way: down the map in CONTRIBUTING.md, which is also the real tree.

A line of the map is a room: a package, or root modules that belong together. Imports are read from the source, wherever
they stand: inside functions and under ``if TYPE_CHECKING`` too, since a type that is needed is a dependence as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "partswap"
GUIDE = ROOT / "CONTRIBUTING.md"


@dataclass(frozen=True)
class Import:
    """One import statement: file and line, the module it is in, the module it names, whether it waits for a call."""

    file: str
    line: int
    module: str
    named: str
    lazy: bool

    def __str__(self) -> str:
        return f"src/partswap/{self.file}:{self.line} imports {self.named}"


def modules(source: Path) -> dict[str, Path]:
    """Return the files of a package by module name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        names = [source.name, *path.relative_to(source).with_suffix("").parts]
        found[".".join(names[:-1] if names[-1] == "__init__" else names)] = path
    return found


def imports(source: Path) -> Iterator[Import]:
    """Yield every import in a package, lazy ones and `import_module("literal")` too; relative ones made absolute."""
    homes = modules(source)
    for module, path in homes.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        file = path.relative_to(source).as_posix()
        waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(), str(path)), False)]
        while waiting:
            node, lazy = waiting.pop()
            for named in _named(node, package):
                # "from partswap.utils import store" names the module, and so does "from partswap.utils.store import x".
                yield Import(file, node.lineno, module, named if named in homes else _shortened(named, homes), lazy)
            lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _for_types(node)
            waiting += [(child, lazy) for child in ast.iter_child_nodes(node)]


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _named(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        start = ".".join([*above, *([node.module] if node.module else [])])
        return [f"{start}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "import_module"):
        return [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return []


def _shortened(named: str, homes: dict[str, Path]) -> str:
    home = named.rpartition(".")[0]
    return home if home in homes else named


def read_map(guide: Path) -> list[list[str]]:
    """Return the lines of the map, each a list of names such as ``"search/"`` or ``"grid.py"``."""
    block = re.search(r"^## Where things are\n.*?^```\n(.*?)^```", guide.read_text(), re.M | re.S)
    assert block, f"{guide.name} has no map under 'Where things are'"
    # Names, then two or more spaces, then what they are.
    return [re.split(r"\s{2,}", line)[0].split() for line in block[1].splitlines() if line.strip()]


def rooms(guide: Path) -> dict[str, int]:
    """Return which line of the map a package or root module is on."""
    lines = read_map(guide)
    return {name.removesuffix("/").removesuffix(".py"): k for k, names in enumerate(lines) for name in names}


def room_of(module: str) -> str:
    """Return the package directly under the root, or the root module; the root itself is `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def upward(source: Path, order: dict[str, int]) -> dict[tuple[str, str], Import]:
    """Return imports that go up the map, by file and room."""
    found = {}
    for made in imports(source):
        if made.named.split(".")[0] != source.name:
            continue
        mine, theirs = room_of(made.module), room_of(made.named)
        if mine != theirs and order[theirs] < order[mine]:
            found[made.file, theirs] = made
    return found


def cycles(source: Path) -> list[tuple[str, ...]]:
    """Return modules that import each other when they are loaded: imports inside functions do not count here."""
    graph: dict[str, set[str]] = {module: set() for module in modules(source)}
    for made in imports(source):
        if made.named in graph and made.named != made.module and not made.lazy:
            graph[made.module].add(made.named)
    found = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            ring = error.args[1]
            start = ring[:-1].index(min(ring))
            found.append(tuple([*ring[:-1], *ring[:-1]][start : start + len(ring) - 1]))
            graph[ring[1]].discard(ring[0])  # the sorter names predecessors: ring[1] imports ring[0]
            graph[ring[0]].discard(ring[1])
        else:
            return found


def test_dependence_goes_down_the_map():
    found = upward(SOURCE, rooms(GUIDE))
    assert not found, "these go up the map in CONTRIBUTING.md:\n" + "\n".join(map(str, found.values()))


def test_no_modules_import_each_other():
    found = set(cycles(SOURCE))
    assert not found, "modules that import each other:\n" + "\n".join(" -> ".join(c) for c in sorted(found))


def test_torchvision_and_timm_are_imported_in_one_place():
    made = [i for i in imports(SOURCE) if i.named.split(".")[0] in ("torchvision", "timm") and i.file != "_vision.py"]
    assert not made, "import these through partswap._vision:\n" + "\n".join(map(str, made))


def test_the_map_is_the_real_tree():
    named = [name for names in read_map(GUIDE) for name in names]
    assert len(named) == len(set(named)), f"named twice: {sorted({n for n in named if named.count(n) > 1})}"
    real = {f"{p.parent.name}/" for p in SOURCE.glob("*/__init__.py")} | {p.name for p in SOURCE.glob("*.py")}
    assert not real - set(named), f"not on the map in CONTRIBUTING.md: {sorted(real - set(named))}"
    assert not set(named) - real, f"on the map in CONTRIBUTING.md, but nowhere else: {sorted(set(named) - real)}"


# -- the checks themselves can fail ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "from pkg.top import x",
        "from pkg import top",
        "import pkg.top.deep",
        "from ..top import x",
        "def f():\n    from pkg.top.deep import x",
        "if TYPE_CHECKING:\n    from pkg.top import x",
        "y = importlib.import_module('pkg.top.deep')",
    ],
)
def test_an_import_upwards_is_seen(tmp_path, line):
    for name in ("top/__init__.py", "top/deep.py", "low/__init__.py", "__init__.py"):
        (tmp_path / "pkg" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pkg" / name).touch()
    (tmp_path / "pkg" / "low" / "file.py").write_text(line)
    order = {"top": 0, "low": 1, "__init__": 0}
    assert [*upward(tmp_path / "pkg", order)] == [("low/file.py", "top")]
    assert not upward(tmp_path / "pkg", {"low": 0, "top": 1, "__init__": 0})


def test_a_cycle_is_seen(tmp_path):
    for name, line in {
        "__init__": "",
        "a": "from pkg import b",
        "b": "from pkg.c import x",
        "c": "import pkg.a",
    }.items():
        (tmp_path / f"{name}.py").write_text(line)
    (tmp_path / "pkg").mkdir()
    for path in tmp_path.glob("*.py"):
        path.rename(tmp_path / "pkg" / path.name)
    assert len(cycles(tmp_path / "pkg")) == 1
    (tmp_path / "pkg" / "c.py").write_text("def f():\n    import pkg.a")
    assert cycles(tmp_path / "pkg") == []
