"""What a run is made of: one typed record, read from YAML, from flags, or both."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from partswap.errors import FileFormatError, SettingError, suggest
from partswap.options import AUXILIARY_HELP, MODEL_HELP, check_options, parse_options
from partswap.registry import registered

if TYPE_CHECKING:
    # Only there, and where they are used: the command line reads the fields below, and must not wait for torch.
    from partswap.search import Method

METHOD_NAMES = ", ".join(registered("partswap.search.methods"))
DATASET_NAMES = ", ".join(registered("partswap.data.sets"))
#: What to give where a value has the wrong type, by field or by the kind of pydantic's error.
WANTED = {
    "methods": "a list of words",
    "options": "NAME: VALUE pairs",
    "settings": "METHOD: {NAME: VALUE}",
    "int": "a whole number",
    "float": "a number",
    "string": "text (in quotes if need be)",
    "path": "a path",
}


def about(text: str, default: Any = ..., *, flag: str | None = None, matters: bool = True, **rules: Any) -> Any:
    """Return a field with its help text.

    Its flag is given if that is not its name; a field matters if another value would give other explanations.
    """
    return Field(default, description=text, json_schema_extra={"flag": flag, "matters": matters}, **rules)


class RunConfig(BaseModel):
    """Everything one run needs to know; each field is a line of a YAML file and a flag of ``partswap run``.

    Attributes are described by their help texts: ``partswap run --help``.

    Examples
    --------
    >>> config = RunConfig(data="aviary", model="aviary:vgg", methods=("paper",), settings={"paper": {"keep": 0.1}})
    >>> config.build_methods()["paper"].keep
    0.1
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    data: str = about(f"Data set: {DATASET_NAMES}.")
    # The path does not matter: data and weights are compared by their fingerprints.
    path: Path | None = about("Its folder.", None, matters=False, strict=False)
    split: str = about("Images to explain: a split of the data set (see partswap data list).", "test")
    options: Mapping[str, Any] = about(
        "NAME=VALUE for the data set (supercategory=Birds); repeat for more.", {}, flag="--option"
    )
    model: str = about(MODEL_HELP, matters=False)
    weights: str | None = about("Its weights: a file, or 'default' for official ones.", None, matters=False)
    layer: str | None = about("Where to cut it (see partswap layers).", None)
    auxiliary: str | None = about(AUXILIARY_HELP, None)
    tau: float | None = about("Temperature of the auxiliary, if not its own.", None, gt=0)
    methods: tuple[str, ...] = about(f"Method: {METHOD_NAMES}; repeat.", ("partswap",), flag="--method")
    settings: Mapping[str, Mapping[str, Any]] = about("METHOD.NAME=VALUE; repeat for more.", {}, flag="--setting")
    distractors: int = about("How many images to take regions from.", 20, ge=1)
    selection: Literal["confusion", "attributes"] = about(
        "Which class to explain towards: confusion or attributes.", "confusion"
    )
    queries: int | None = about("Explain only so many images, drawn at random.", None, ge=1)
    seed: int = about("For everything random.", 0, ge=0)
    precision: Literal["float32", "bfloat16", "auto"] = about(
        "Of features: float32, bfloat16, or auto, what this machine is fast at.", "auto"
    )
    device: Literal["cpu", "cuda", "mps", "auto"] = about("Where networks compute: cpu, cuda, mps, or auto.", "cpu")
    shard: int = about("Explanations per file.", 20, ge=1)
    cache: Path | None = about(
        "Folder for features; default: $PARTSWAP_CACHE, or your cache.", None, matters=False, strict=False
    )
    out: Path = about("Folder of the run.", Path("out/run"), matters=False, strict=False)
    workers: int | None = about("Processes; one per core if not given.", None, matters=False, ge=1)
    on: Literal["local", "ray"] = about("Where: local or ray.", "local", matters=False)
    address: str | None = about("Address of a Ray cluster; one is started here if not given.", None, matters=False)

    def __init__(self, where: Mapping[str, str] | None = None, /, **values: Any) -> None:
        """Check everything; `where` says where values were given, by field, for messages."""
        from partswap.data.base import DATASETS

        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _refusal(error, values, where or {}) from error
        DATASETS.get(self.data)
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise SettingError(f"methods is {list(self.methods)}.", "Name at least one, and none twice.")
        self.build_methods()

    @field_validator("methods", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @field_validator("tau", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        with suppress(ValueError):  # YAML takes 1e-3 for a word
            return float(value) if isinstance(value, str) else value
        return value

    def with_(self, **changes: Any) -> RunConfig:
        """Return the same configuration with some fields changed, checked as a new one is."""
        return RunConfig(**{**dict(self), **changes})

    def build_methods(self, tau: float | None = None) -> dict[str, Method]:
        """Return the methods by name with their settings; `tau` is the auxiliary's, for those that have one."""
        from partswap.search import METHODS

        kinds = {name: METHODS.get(name) for name in self.methods}
        for name in self.settings:
            if name not in kinds:
                raise SettingError(
                    f"settings are for the method {name!r}, which is not run.",
                    f"{suggest(name, kinds)} Methods: {', '.join(kinds)}.".strip(),
                )
        built = {}
        for name, kind in kinds.items():
            usual = {"tau": tau} if tau is not None and "tau" in inspect.signature(kind).parameters else {}
            given = check_options(
                kind, self.settings.get(name, {}), what=f"the method {name}", word="setting", label=f"{name}.{{name}}"
            )
            built[name] = kind(**usual | given)
        return built

    def record(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return self.model_dump(mode="json", fallback=str)

    def deciding(self) -> dict[str, Any]:
        """Return the fields that decide the result; the path of an auxiliary's weights is left out."""
        from partswap.models.auxiliaries import AuxiliaryChoice

        found = {name: value for name, value in self.record().items() if _extra(name)["matters"]}
        if self.auxiliary is not None:
            found["auxiliary"] = str(replace(AuxiliaryChoice.parse(self.auxiliary), weights=None))
        return found

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunConfig:
        """Return the configuration that `record` wrote."""
        return cls(dict.fromkeys(record, "in its record"), **record)


def flag_of(name: str) -> str:
    """Return the flag of a field."""
    return _extra(name)["flag"] or f"--{name.replace('_', '-')}"


def read_config(path: Path | None, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Return a configuration from a YAML file (if there is one) and flags, which win where they are not None."""
    values, where = ({}, {}) if path is None else _read_yaml(path)
    for name, value in (flags or {}).items():
        if value is None or value == []:
            continue
        said: Mapping[str, Any] = values[name] if isinstance(values.get(name), Mapping) else {}
        if name == "options":
            value = {**said, **parse_options(value)}
        elif name == "settings":
            value = _parse_settings(said, value)
        values[name], where[name] = value, f"from {flag_of(name)}"
    return RunConfig(where, **values)


def _read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a file, and the line of each."""
    import yaml

    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"there is no file {path} ({error.strerror}).", "Check the path.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise FileFormatError(f"{path} is not text ({error}).", "Give a YAML file.") from error
    values: dict[str, Any] = {}
    where: dict[str, str] = {}
    try:
        node = loader.get_single_node()
        if node is not None and not isinstance(node, yaml.MappingNode):
            raise FileFormatError(f"{path} holds no fields.", "Write one 'name: value' per line.")
        for key_node, value_node in node.value if node else ():
            key = str(key_node.value)  # as written: YAML takes the word on for a truth value
            place = f"line {key_node.start_mark.line + 1} of {path}"
            if key in values:
                raise SettingError(f"{key} is given twice ({place}).", "Keep one.")
            values[key], where[key] = loader.construct_object(value_node, deep=True), place
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, SettingError):
            raise
        raise FileFormatError(f"{path} is not valid YAML ({' '.join(str(error).split())}).", "Correct it.") from error
    finally:
        loader.dispose()
    return values, where


def _parse_settings(given: Mapping[str, Any], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    found = {method: dict(values) for method, values in given.items() if isinstance(values, Mapping)}
    for name, value in parse_options(texts).items():
        method, dot, setting = name.partition(".")
        if not dot:
            raise SettingError(f"the setting is {name!r}.", "Write METHOD.NAME=VALUE, as in paper.keep=0.1.")
        found.setdefault(method, {})[setting] = value
    return found


def _refusal(error: ValidationError, values: Mapping[str, Any], where: Mapping[str, str]) -> SettingError:
    """Return the first of pydantic's complaints in our words; a name that does not exist comes before all others."""
    found = error.errors()
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    name, kind, limits = str(first["loc"][0]), first["type"], first.get("ctx", {})
    value, place = values.get(name), f" ({where[name]})" if name in where else ""
    known = RunConfig.model_fields
    match kind:
        case "extra_forbidden":
            return SettingError(
                f"there is no field {name!r}{place}.", suggest(name, known) or f"Fields: {', '.join(known)}."
            )
        case "missing":
            return SettingError(f"{name} is missing.", f"Write '{name}: ...' into the file, or pass {flag_of(name)}.")
        case "greater_than_equal":
            return SettingError(f"{name} is {value}.", f"Use {limits['ge']} or more.")
        case "greater_than":
            return SettingError(f"{name} is {value}.", f"Use more than {limits['gt']:g}.")
        case "literal_error":
            choices = typing.get_args(known[name].annotation)
            return SettingError(
                f"{name} is {value!r}.", suggest(str(value), choices) or f"Use one of {', '.join(choices)}."
            )
    wanted = WANTED.get(name) or WANTED[kind.partition("_")[0]]
    return SettingError(f"{name} is {value!r}{place}.", f"Give {wanted}.")


def _extra(name: str) -> dict[str, Any]:
    return typing.cast("dict[str, Any]", RunConfig.model_fields[name].json_schema_extra)
