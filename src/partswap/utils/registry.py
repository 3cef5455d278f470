"""Registries: a new method, metric, data set or auxiliary is one file with one decorator.

A registry knows the package its members live in and imports that package's modules the first time someone asks,
so dropping a file into the folder is all it takes, and nothing is imported before it is needed.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from partswap.errors import UnknownNameError, suggest

T = TypeVar("T")

REGISTERED = re.compile(r'^@\w+\.register\("([^"]+)"\)', re.MULTILINE)


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
        self._discover()
        if not isinstance(name, str) or name not in self._members:
            raise UnknownNameError(
                f"there is no {self.kind} called {name!r}.",
                f"{suggest(str(name), self._members)} Known: {', '.join(self.names())}.".strip(),
            )
        return self._members[name]

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        self._discover()
        return sorted(self._members)

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._members

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
        self._discovered = True


def registered(package: str) -> dict[str, str]:
    """Return the names that the files of a package of ours register, each with the first line of its file.

    The files are read and not imported: for help texts, which must not wait for torch.

    Examples
    --------
    >>> registered("partswap.metrics")["same_kp"]
    'Same-KP: is a head swapped for a head?'
    """
    folder = Path(__file__).parents[1].joinpath(*package.split(".")[1:])
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    found = {name: text.split("\n", 1)[0].strip('"') for text in texts for name in REGISTERED.findall(text)}
    return dict(sorted(found.items()))
