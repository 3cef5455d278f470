"""Every error partswap raises on purpose.

All derive from `PartswapError`, so one ``except`` catches them; each message names the thing that is wrong
and ends with what to do about it. Those that stand for a bad argument are `ValueError` too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

#: What a fix calls an argument: in Python, and on the command line.
ARGUMENTS = {
    "class_names": ("class_names", "--classes"),
    "fit_head": ("fit_head=True", "--fit-head"),
    "fetch": ("partswap.fetch_image(address)", "--fetch"),
    "list_layers": ("list_layers(model)", "partswap layers"),
    "keep_misclassified": ("keep_misclassified=True", "--keep-misclassified"),
    "preprocess": ("preprocess=partswap.Preprocess(...)", "--preprocess"),
    "pooled_start": ("pooled_start", "--pooled-start"),
    **{name: (name, f"--{name}") for name in ("address", "auxiliary", "cache", "freeze", "layer", "only", "out")},
    **{name: (name, f"--{name}") for name in ("pixel", "target", "weights", "words", "workers")},
}


class PartswapError(Exception):
    """Base of all partswap errors: `problem` says what is wrong, naming the thing, `fix` what the user can do.

    A fix names arguments in braces (``"Give {weights}."``): they become arguments in Python and flags on the command
    line (see `ARGUMENTS`). Of ``{a=1|--a 1}`` Python shows the first and the command line the second.
    """

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem} {_worded(fix, 0)}".strip())
        self.problem = problem
        self.fix = _worded(fix, 0)
        self._raw = fix

    def in_flags(self) -> str:
        """Return the message with flags in place of arguments, for the command line."""
        return f"{self.problem} {_worded(self._raw, 1)}".strip()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problem, self._raw)  # or a process would lose half of it on its way to another


def _worded(fix: str, column: int) -> str:
    """Return a fix with its arguments named for Python (0) or the command line (1)."""

    def name(match: re.Match[str]) -> str:
        return ARGUMENTS[match[1]][column] if match[1] in ARGUMENTS else match[0]

    return re.sub(r"\{(\w+)\}", name, re.sub(r"\{([^{}|]+)\|([^{}|]+)\}", lambda match: match[1 + column], fix))


class ShapeError(PartswapError, ValueError):
    """A tensor, grid or image does not have the shape that is needed."""


class NonFiniteError(PartswapError, ValueError):
    """Features, auxiliary features or logits hold NaN or infinity."""


class ClassIndexError(PartswapError, ValueError):
    """A class index is out of range, or the target is what the model already predicts."""


class NoDistractorsError(PartswapError, ValueError):
    """There is no distractor to take regions from."""


class SettingError(PartswapError, ValueError):
    """A setting has a value that makes no sense."""


class UnknownNameError(PartswapError, ValueError):
    """A name (method, metric, data set, auxiliary, model) is not registered."""


class PluginError(PartswapError):
    """Another installed package adds a method, a metric, ... to partswap, and it cannot be used."""


class LayerError(PartswapError, ValueError):
    """A layer does not exist, or its output is not a grid."""


class CutError(PartswapError):
    """A model could not be cut into features and head that together equal the model."""


class InputError(CutError):
    """A model fails on images of the size and number of channels that it is given."""


class NondeterministicModelError(CutError):
    """A model gives different outputs for the same input in eval mode."""


class MemoryBudgetError(PartswapError, ValueError):
    """The memory budget is too small for even one candidate."""


class ImageError(PartswapError):
    """An image is missing or cannot be read."""


class DataError(PartswapError):
    """A data set on disk is not laid out as it should be: a file is missing, a line is malformed, sizes disagree."""


class UnexplainedError(PartswapError):
    """Some of several images could not be explained.

    `failures` says which (`index`, `name`, `error`); `results` has the counterfactuals of the others, None in the
    places of those.
    """

    def __init__(
        self, problem: str, fix: str = "", failures: tuple[Any, ...] = (), results: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(problem, fix)
        self.failures, self.results = failures, results

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problem, self._raw, self.failures, self.results)


class FileFormatError(PartswapError):
    """A file is truncated, foreign, or written by an incompatible version."""


class WriteError(PartswapError, OSError):
    """A file cannot be written: the disk is full or read-only, or the place is not ours."""


class MissingDependencyError(PartswapError, ImportError):
    """An optional package is needed for what was asked."""


def suggest(name: str, candidates: Iterable[str], *, limit: int = 3) -> str:
    """Return ``"Did you mean 'a' or 'b'?"`` for the known names nearest to `name`, or ``""``.

    Names that begin with it come first, then those that hold it, then those that are spelled alike.
    """
    names, typed = list(candidates), name.lower()
    holding = [n for n in names if len(typed) > 2 and typed in n.lower()]
    holding.sort(key=lambda n: not n.lower().startswith(typed))
    close = list(dict.fromkeys([*holding, *difflib.get_close_matches(name, names, n=limit, cutoff=0.5)]))[:limit]
    return f"Did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
