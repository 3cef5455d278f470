"""Reading a run's configuration: a YAML file, flags, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from partswap.errors import FileFormatError, SettingError
from partswap.options import parse_options
from partswap.runs.config import RunConfig, flag_of, make_config


def read_config(path: Path | None, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Return a configuration from a YAML file (if there is one) and flags, which win where they are not None."""
    given = {} if path is None else _read_yaml(path)
    for name, value in (flags or {}).items():
        if value is None or value == []:
            continue
        where = f"from {flag_of(name)}"
        if name == "options":
            value = {**_mapping(given, name), **parse_options(value)}
        elif name == "settings":
            value = _parse_settings(_mapping(given, name), value)
        given[name] = (value, where)
    return make_config(given)


def _read_yaml(path: Path) -> dict[str, tuple[Any, str]]:
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"there is no file {path} ({error.strerror}).", "Check the path.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise FileFormatError(f"{path} is not text ({error}).", "Give a YAML file.") from error
    found: dict[str, tuple[Any, str]] = {}
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise FileFormatError(f"{path} holds no fields.", "Write one 'name: value' per line.")
        for key_node, value_node in node.value:
            key = str(key_node.value)  # as written: YAML takes the word on for a truth value
            where = f"line {key_node.start_mark.line + 1} of {path}"
            if key in found:
                raise SettingError(f"{key} is given twice ({where}).", "Keep one.")
            found[key] = (loader.construct_object(value_node, deep=True), where)
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, SettingError):
            raise
        raise FileFormatError(f"{path} is not valid YAML ({' '.join(str(error).split())}).", "Correct it.") from error
    finally:
        loader.dispose()
    return found


def _parse_settings(given: Mapping[str, Any], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    found = {method: dict(values) for method, values in given.items() if isinstance(values, Mapping)}
    for name, value in parse_options(texts).items():
        method, dot, setting = name.partition(".")
        if not dot:
            raise SettingError(f"the setting is {name!r}.", "Write METHOD.NAME=VALUE, as in paper.keep=0.1.")
        found.setdefault(method, {})[setting] = value
    return found


def _mapping(given: Mapping[str, tuple[Any, str]], name: str) -> Mapping[str, Any]:
    value = given.get(name, ({}, ""))[0]
    return value if isinstance(value, Mapping) else {}
