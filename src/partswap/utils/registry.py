"""Registries: a new method, metric, data set or auxiliary is one file with one decorator, or a plug-in.

A registry knows the package its members live in and imports that package's modules the first time someone asks,
so dropping a file into the folder is all it takes, and nothing is imported before it is needed. Other installed
packages add members through entry points; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from partswap.errors import PluginError, UnknownNameError, suggest

T = TypeVar("T")

REGISTERED = re.compile(r'^@\w+\.register\("([^"]+)"\)', re.MULTILINE)

#: The entry points that add members to the registry of a package of ours.
ENTRY_POINTS = {
    "partswap.search.methods": "partswap.methods",
    "partswap.metrics": "partswap.metrics",
    "partswap.data.sets": "partswap.datasets",
    "partswap.models.auxiliaries": "partswap.auxiliaries",
    "partswap.drawing.figures": "partswap.figures",
}


class Registry(Generic[T]):
    """Named objects of one kind ("method", "metric", ...), registered by the modules of a package.

    Examples
    --------
    >>> from partswap.metrics import METRICS
    >>> "same_kp" in METRICS
    True
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._members: dict[str, T] = {}
        self._plugins: dict[str, EntryPoint] = {}
        self._discovered = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds its argument under `name`."""

        def add(member: T) -> T:
            if name in self._members and self._members[name] is not member:
                raise ValueError(f"two {self.kind}s are called {name!r}; rename one")
            self._members[name] = member
            return member

        return add

    def get(self, name: str) -> T:
        """Return the member called `name`; an unknown name raises an error that suggests the nearest."""
        if name not in self:
            raise UnknownNameError(
                f"there is no {self.kind} called {name!r}.",
                f"{suggest(str(name), self.names())} Known: {', '.join(self.names())}.".strip(),
            )
        if name not in self._members:
            self.register(name)(self._load_plugin(name))
        return self._members[name]

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        self._discover()
        return sorted({*self._members, *self._plugins})

    def __contains__(self, name: object) -> bool:
        self._discover()
        return isinstance(name, str) and (name in self._members or name in self._plugins)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __repr__(self) -> str:
        return f"<{self.kind}s: {', '.join(self.names())}>"

    def _discover(self) -> None:
        if self._discovered:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        for name, entry_point in plugins(self.package).items():
            if name in self._members:
                problem = f"there is a {self.kind} called {name!r}, and {origin(entry_point)} adds another."
                raise PluginError(problem, f"Rename it there, or uninstall {distribution(entry_point)}.")
            self._plugins[name] = entry_point
        self._discovered = True

    def _load_plugin(self, name: str) -> T:
        entry_point = self._plugins[name]
        problem = f"the {self.kind} {name!r} of {origin(entry_point)} cannot be used"
        fix = f"Mend or uninstall {distribution(entry_point)}."
        try:
            member: T = entry_point.load()
        except Exception as error:  # it is anybody's code
            raise PluginError(f"{problem} ({type(error).__name__}: {error}).", fix) from error
        if not callable(member):
            raise PluginError(f"{problem}: {entry_point.value} is no class or function.", fix)
        return member


def plugins(package: str) -> dict[str, EntryPoint]:
    """Return the entry points by which installed packages add to a package of ours, by name; nothing is imported."""
    by_name: dict[str, EntryPoint] = {}
    for entry_point in entry_points(group=ENTRY_POINTS[package]) if package in ENTRY_POINTS else ():
        other = by_name.setdefault(entry_point.name, entry_point)
        if other is not entry_point:
            raise PluginError(
                f"{origin(other)} and {origin(entry_point)} both add {entry_point.name!r} to {entry_point.group}.",
                f"Uninstall {distribution(other)} or {distribution(entry_point)}.",
            )
    return by_name


def distribution(entry_point: EntryPoint) -> str:
    """Return the name of the installed package that an entry point belongs to, as pip has it."""
    return entry_point.dist.name if entry_point.dist else entry_point.module


def origin(entry_point: EntryPoint) -> str:
    """Return where a plug-in comes from, in words."""
    return f"the plug-in {distribution(entry_point)} ({entry_point.value})"


def registered(package: str) -> dict[str, str]:
    """Return the names that a registry of a package of ours has, each with what it is, in one line.

    That is the first line of the file that registers it, or the package that a plug-in comes from. Nothing is imported:
    this is for help texts, which must not wait for torch.

    Examples
    --------
    >>> registered("partswap.metrics")["same_kp"]
    'Same-KP: is a head swapped for a head?'
    """
    folder = Path(__file__).parents[1].joinpath(*package.split(".")[1:])
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    titles = {name: text.split("\n", 1)[0].strip('"') for text in texts for name in REGISTERED.findall(text)}
    titles |= {name: f"{name}: of {origin(entry_point)}." for name, entry_point in plugins(package).items()}
    return dict(sorted(titles.items()))
