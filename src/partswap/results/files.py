"""Counterfactuals as plain data and as JSON files."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from partswap.errors import FileFormatError
from partswap.results.provenance import Provenance

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from partswap.results.counterfactual import Counterfactual

SCHEMA = "partswap.counterfactual"
#: Version 2 adds the probability of the class said before, 3 words, 4 the pixel check; earlier files are still read.
SCHEMA_VERSION = 4
#: What files call the fields of a `Step`, where that differs.
STEP_KEYS = {"target_probability": "probability", "original_class_probability": "own"}


def counterfactual_dict(cf: Counterfactual) -> dict[str, Any]:
    """Return plain data, ready for JSON."""
    data = asdict(replace(cf, pictures=None))
    del data["pictures"]
    data["source"] = cf.source.to_dict()
    data["before"], *data["trace"] = (_renamed(step, STEP_KEYS) for step in (data["before"], *data["trace"]))
    for edit in data["edits"]:
        del edit["cells"], edit["query_box"], edit["distractor_box"]  # follow from the grid and the source
    return {"schema": SCHEMA, "version": SCHEMA_VERSION, **data}


def counterfactual_of(kind: type[Counterfactual], data: Any, where: str) -> Counterfactual:
    """Return the counterfactual that `counterfactual_dict` described; anything else raises `FileFormatError`."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise FileFormatError(
            f"{where} is not a partswap counterfactual.", "Use a file that Counterfactual.save wrote."
        )
    if data.get("version") not in range(1, SCHEMA_VERSION + 1):
        raise FileFormatError(
            f"{where} has schema version {data.get('version')}, this partswap reads {SCHEMA_VERSION}.",
            "Install the partswap version that wrote it, or make it again.",
        )
    stored = {k: v for k, v in data.items() if k not in ("schema", "version", "source")}
    names = {key: name for name, key in STEP_KEYS.items()}
    try:
        stored["before"] = _renamed(stored["before"], names)
        stored["trace"] = [_renamed(step, names) for step in stored["trace"]]
        values = {name: _reader(name).validate_json(json.dumps(v), strict=True) for name, v in stored.items()}
        if not isinstance(data.get("source", {}), dict):
            raise TypeError("source is no mapping")
        return kind(**values, source=Provenance.from_dict(data.get("source", {})))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).splitlines()[:3])
        raise FileFormatError(
            f"{where} is damaged ({reason}).", "Make it again; a counterfactual file has all fields or none."
        ) from error


def read_counterfactual(kind: type[Counterfactual], path: str | Path) -> Counterfactual:
    """Return the counterfactual of a JSON file."""
    try:
        path = Path(path)
        data = json.loads(path.read_text(encoding="utf-8"))
    except IsADirectoryError as error:
        raise FileFormatError(
            f"{path} is a folder, not a counterfactual.",
            "Name a JSON file that Counterfactual.save wrote; for a run: partswap report.",
        ) from error
    except OSError as error:
        raise FileFormatError(f"there is no file {path} ({error.strerror}).", "Check the path.") from error
    except TypeError as error:
        raise FileFormatError(f"{path!r} is no path.", "Give the path of a file.") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileFormatError(
            f"{path} is not complete JSON ({error}).", "It was cut off or is not JSON; make it again."
        ) from error
    return counterfactual_of(kind, data, str(path))


def _renamed(step: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in step.items()}


@cache
def _reader(name: str) -> TypeAdapter[Any]:
    """Return what reads a stored field of a counterfactual, and refuses values of another type."""
    from pydantic import TypeAdapter

    from partswap.results.counterfactual import Counterfactual

    return TypeAdapter(get_type_hints(Counterfactual)[name])
