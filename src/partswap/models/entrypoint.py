"""A model of one's own: what ``module:function`` or ``file.py:function`` returns, the convention of uvicorn."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from partswap import _vision
from partswap.errors import PartswapError, UnknownNameError, suggest


class UnknownLibraryError(UnknownNameError):
    """What stands before the colon of a model's name is neither a library nor a module."""


def check_no_file(name: str) -> None:
    """Raise an error if what should name a model is a file: Python without a function, or weights alone."""
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise UnknownNameError(
                f"there is no file {name}.", "Check the path; a model in a file is file.py:function."
            )
        raise UnknownNameError(
            f"{name} is a file, and no function in it is named.", f"Write {name}:build if its function is called build."
        )
    if Path(name).is_file():
        raise UnknownNameError(
            f"{name} is a file, and no model.",
            "Name the architecture, or file.py:function, and pass the file as {weights}.",
        )


def call_entrypoint(place: str, function: str, classes: int | None = None) -> Any:
    """Return what a function of a file or module returns; it gets `classes` if it takes an argument of that name."""
    module = _module(place)
    build = getattr(module, function, None)
    if not callable(build):
        names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise UnknownNameError(
            f"{place} has no function {function!r}.", suggest(function, names) or f"It has: {', '.join(names)}."
        )
    options: dict[str, Any] = {}
    if classes is not None:
        takes = inspect.signature(build).parameters
        options = {n: classes for n in ("classes", "num_classes") if n in takes}
    try:
        return build(**options)
    except PartswapError:
        raise
    except Exception as error:  # it is anybody's code
        raise PartswapError(
            f"{place}:{function} failed ({type(error).__name__}: {error}).",
            "Call it yourself to see where: it takes no arguments.",
        ) from error


def load_attribute(place: str, name: str) -> Any:
    """Return what is called `name` in a user's file or module; a function that takes nothing is called for it."""
    value = getattr(_module(place), name, None)
    if value is None:
        raise UnknownNameError(f"{place} has nothing called {name!r}.", "Check the name after the colon.")
    if inspect.isfunction(value) and not inspect.signature(value).parameters:
        return call_entrypoint(place, name)
    return value


def _module(place: str) -> ModuleType:
    _vision.torchvision()  # most files import it, and here it may need help to be importable
    # As python -m and uvicorn do: what lies in the working folder can be imported.
    if place.endswith(".py"):
        path = Path(place).absolute()
        if not path.is_file():
            raise PartswapError(f"there is no file {place}.", "Check the path before the colon.")
        name = f"partswap_own_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise PartswapError(f"{place} cannot be imported.", "Give a Python file.")
        module = importlib.util.module_from_spec(spec)
        folder = str(path.parent)
        sys.modules[name] = module  # classes defined there are found again, by pickle for one
        sys.path.insert(0, folder)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise PartswapError(
                f"{place} cannot be imported ({type(error).__name__}: {error}).", "Correct it."
            ) from error
        finally:
            sys.path.remove(folder)
        return module
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place.partition(".")[0]:
            raise PartswapError(f"{place} cannot be imported ({error}).", "Install what is missing.") from error
        raise UnknownLibraryError(
            f"there is no library {place!r} of models, and no module of that name that can be imported.",
            "Use torchvision:, timm:, hf:FOLDER, or a file of yours: path/to/file.py:function.",
        ) from error
    except Exception as error:
        raise PartswapError(
            f"the module {place} cannot be imported ({type(error).__name__}: {error}).",
            "Check its name, or give its file: path/to/file.py:function.",
        ) from error
    finally:
        sys.path.remove(str(Path.cwd()))
