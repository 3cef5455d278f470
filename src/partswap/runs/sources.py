"""Python files that came with a network, sent to processes that cannot import them.

A classifier may be made of classes in a user's file. A worker on another machine has no such file, and a file that was
loaded under a name of its own can be imported by nobody. So the text of such files travels with the network, and is
what an import falls back on where it finds nothing else.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any


@dataclass(frozen=True)
class SourceFile:
    """A module: its name, where its file lies here, the text, and whether it is a package."""

    name: str
    file: str
    text: str
    package: bool


def sources_of(names: Iterable[str]) -> tuple[SourceFile, ...]:
    """Return the modules that are not installed, with all that were imported from the same folders."""
    folders = {_top(name, path) for name in names if (path := _own_file(name)) is not None}
    files = []
    for name in sorted(sys.modules):
        path = _own_file(name) if folders else None
        if path is not None and not folders.isdisjoint(path.parents):
            try:
                files.append(SourceFile(name, str(path), path.read_text("utf-8"), path.name == "__init__.py"))
            except (OSError, UnicodeDecodeError):  # not needed, or missed where it is imported
                continue
    return tuple(files)


def provide(sources: Sequence[SourceFile]) -> None:
    """Let modules be imported from their text, in this process, where they are found nowhere else."""
    provided = {source.name for finder in sys.meta_path if isinstance(finder, _Finder) for source in finder.sources}
    new = [source for source in sources if source.name not in provided]
    if new:
        sys.meta_path.append(_Finder(new))


@contextmanager
def importable(classes: Iterable[Any]) -> Iterator[None]:
    """Register the modules of classes and functions while the context lasts, if who loaded them did not."""
    ours = []
    for each in classes:
        name = each.__module__
        if name in sys.modules:
            continue
        functions = [each] if isinstance(each, FunctionType) else vars(each).values()
        spaces = [f.__globals__ for f in functions if isinstance(f, FunctionType) and f.__module__ == name]
        if spaces:
            sys.modules[name] = module = ModuleType(name)
            vars(module).update(spaces[0])
            ours.append(name)
    try:
        yield
    finally:
        for name in ours:
            del sys.modules[name]


class _Finder(MetaPathFinder, InspectLoader):
    """Imports modules from their text."""

    def __init__(self, sources: Sequence[SourceFile]) -> None:
        self.sources = sources
        self._by_name = {source.name: source for source in sources}

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self._by_name:
            return None
        source = self._by_name[fullname]
        return spec_from_loader(fullname, self, origin=source.file, is_package=source.package)

    def get_source(self, fullname: str) -> str:
        return self._by_name[fullname].text

    def is_package(self, fullname: str) -> bool:
        return self._by_name[fullname].package

    def exec_module(self, module: ModuleType) -> None:
        source = self._by_name[module.__name__]
        module.__file__ = source.file
        exec(compile(source.text, source.file, "exec"), vars(module))


def _own_file(name: str) -> Path | None:
    """Return the file of a module that is not installed, None of any other."""
    if name in ("__main__", "__mp_main__"):
        return None
    file = getattr(sys.modules.get(name), "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return None
    path = Path(file).absolute()
    paths = sysconfig.get_paths()
    installed = {Path(paths[kind]) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed.add(Path(__file__).absolute().parents[1])  # ourselves, wherever we are
    if not installed.isdisjoint(path.parents) or {"site-packages", "dist-packages"} & set(path.parts):
        return None
    return path


def _top(name: str, path: Path) -> Path:
    """Return the folder from which a module was imported: that of its outermost package."""
    levels = name.count(".") + (path.name == "__init__.py")
    return path.parents[levels]
