"""What a run is made of: one typed record, read from YAML, from flags, or both."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from partswap.errors import FileFormatError, SettingError, suggest
from partswap.models.model_name import ModelName, split_function
from partswap.utils.options import AUXILIARY_HELP, MODEL_HELP, check_options, parse_options
from partswap.utils.registry import registered

if TYPE_CHECKING:
    # Only there, and where they are used: the command line reads the fields below, and must not wait for torch.
    from partswap.models.preprocess_options import PreprocessOptions
    from partswap.search import Method

#: Which images are explained, by whether the model gets them right.
Only = Literal["right", "wrong", "all"]

#: The fields that say how a model's images are prepared.
PREPARATION = ("preprocess", "size", "resize", "mean", "std")
METHOD_NAMES = ", ".join(registered("partswap.search.methods"))
DATASET_NAMES = ", ".join(registered("partswap.data.sets"))
#: What to give where a value has the wrong type, by field or by the kind of pydantic's error.
WANTED = {
    "methods": "a list of words",
    "options": "NAME: VALUE pairs",
    "settings": "METHOD: {NAME: VALUE}",
    "int": "a whole number",
    "bool": "true or false",
    "float": "a number",
    "string": "text (in quotes if need be)",
    "path": "a path",
}


def config_field(
    text: str,
    default: Any = ...,
    *,
    flag: str | None = None,
    alias: str | None = None,
    affects_result: bool = True,
    added_later: bool = False,
    **rules: Any,
) -> Any:
    """Return a field with its help text.

    `flag` is its flag if that is not its name, `alias` another spelling of it. A field affects the result if another
    value would give other explanations. One that was added later is recorded only where it is not at its default, so
    that records of earlier versions stay equal.
    """
    extra: Any = {"flag": flag, "alias": alias, "affects_result": affects_result, "added_later": added_later}
    return Field(default, description=text, json_schema_extra=extra, **rules)


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

    data: str = config_field(f"Data set: {DATASET_NAMES}.")
    # The path does not matter: data and weights are compared by their fingerprints.
    path: Path | None = config_field("Its folder.", None, affects_result=False, strict=False)
    split: str = config_field("Images to explain: a split of the data set (see partswap data list).", "test")
    options: Mapping[str, Any] = config_field(
        "NAME=VALUE for the data set (supercategory=Birds); repeat for more.", {}, flag="--option"
    )
    model: str = config_field(MODEL_HELP, affects_result=False)
    weights: str | None = config_field(
        "Its weights: a file, or 'default' for official ones.", None, affects_result=False
    )
    classes: str | None = config_field(
        "Names of its classes, if it does not say them: a file (one per line, or JSON), or 'imagenet'.",
        None,
        affects_result=False,
        added_later=True,
    )
    preprocess: str | None = config_field(
        "How its images are prepared, if it does not say it: imagenet, 0-1 (pixels of 0 to 1), a JSON file with size, "
        "mean and std, preprocessor_config.json, or file.py:transform.",
        None,
        added_later=True,
    )
    size: str | int | None = config_field("Side of its images, or HEIGHTxWIDTH.", None, added_later=True)
    resize: int | None = config_field(
        "Short side before the crop, if it is not that of the size.", None, added_later=True, ge=1
    )
    mean: str | float | None = config_field(
        "Mean per channel, on a scale of 0 to 1: 0.5,0.5,0.5; one number for all.", None, added_later=True
    )
    std: str | float | None = config_field("Standard deviation per channel, likewise.", None, added_later=True)
    layer: str | None = config_field("Where to cut it (see partswap layers).", None)
    auxiliary: str | None = config_field(AUXILIARY_HELP, "auto")
    tau: float | None = config_field("Temperature of the auxiliary, if not its own.", None, gt=0)
    methods: tuple[str, ...] = config_field(f"Method: {METHOD_NAMES}; repeat.", ("partswap",), flag="--method")
    settings: Mapping[str, Mapping[str, Any]] = config_field(
        "NAME=VALUE for all methods that have it, or METHOD.NAME=VALUE; repeat for more.",
        {},
        flag="--set",
        alias="--setting",
    )
    distractors: int = config_field("How many images to take regions from.", 20, ge=1)
    selection: Literal["confusion", "attributes"] = config_field(
        "Which class is the nearest, to explain what is right towards: confusion (the one it is most often taken for; "
        "if it never is, the one with the highest mean probability) or attributes (the most similar ones).",
        "confusion",
    )
    only: Only = config_field(
        "Which images: those the model gets right, those it gets wrong (towards their true class), or all.",
        "right",
        added_later=True,
    )
    queries: int | None = config_field("Explain only so many images, drawn at random.", None, ge=1)
    seed: int = config_field("For everything random.", 0, ge=0)
    pixel: bool = config_field(
        "Check explanations in pixels, too: regions are pasted into the query and the whole network is run. Ours then "
        "prefers edits that hold there.",
        False,
        added_later=True,
    )
    precision: Literal["float32", "bfloat16", "auto"] = config_field(
        "Of features: float32, bfloat16, or auto, what this machine is fast at.", "auto"
    )
    device: Literal["cpu", "cuda", "mps", "auto"] = config_field(
        "Where networks compute: cpu, cuda, mps, or auto.", "cpu"
    )
    shard: int = config_field("Explanations per file.", 20, ge=1)
    cache: Path | None = config_field(
        "Folder for features; default: $PARTSWAP_CACHE, or your cache.", None, affects_result=False, strict=False
    )
    out: Path = config_field("Folder of the run.", Path("out/run"), affects_result=False, strict=False)
    workers: int | None = config_field("Processes; one per core if not given.", None, affects_result=False, ge=1)
    on: Literal["local", "ray"] = config_field("Where: local or ray.", "local", affects_result=False)
    address: str | None = config_field(
        "Address of a Ray cluster; one is started here if not given.", None, affects_result=False
    )

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

    @field_validator("auxiliary")
    @classmethod
    def _without(cls, value: str | None) -> str | None:
        return None if value == "none" else value

    @field_validator("tau", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        with suppress(ValueError):  # YAML takes 1e-3 for a word
            return float(value) if isinstance(value, str) else value
        return value

    def with_(self, **changes: Any) -> RunConfig:
        """Return the same configuration with some fields changed, checked as a new one is."""
        return RunConfig(**{**dict(self), **changes})

    def anchored(self, *where: Path) -> RunConfig:
        """Return the same configuration with absolute paths of data, weights and networks.

        Relative ones are looked for in the folders `where`, then in the one we are in; what is nowhere, such as the
        name of a network, stays as it is. What a run's result depends on does not change.
        """

        def place(text: str) -> str:
            if text in ("", "default"):  # official weights
                return text
            return str(next((folder / text for folder in (*where, Path.cwd()) if (folder / text).exists()), text))

        changes: dict[str, Any] = {"model": ModelName.parse(self.model).located(place)}
        if self.path is not None:
            changes["path"] = Path(place(str(self.path)))
        if self.weights is not None:
            changes["weights"] = place(self.weights)
        if self.classes is not None:
            changes["classes"] = place(self.classes)
        if self.preprocess is not None:
            file, name = split_function(self.preprocess) or ("", "")
            changes["preprocess"] = f"{place(file)}:{name}" if file.endswith(".py") else place(self.preprocess)
        if self.auxiliary is not None:
            changes["auxiliary"] = self._auxiliary(place)
        return self.with_(**changes)

    def _auxiliary(self, place: Callable[[str], str | None]) -> str:
        """Return the auxiliary with its weights put elsewhere."""
        from partswap.models.auxiliaries import AuxiliaryChoice

        choice = AuxiliaryChoice.parse(str(self.auxiliary))
        return str(replace(choice, weights=place(choice.weights))) if choice.weights else str(choice)

    def build_methods(self) -> dict[str, Method]:
        """Return the methods by name with their settings; if the configuration says a temperature, all have it."""
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
            usual = {"tau": self.tau} if self.tau and "tau" in inspect.signature(kind).parameters else {}
            given = check_options(
                kind, self.settings.get(name, {}), what=f"the method {name}", word="setting", label=f"{name}.{{name}}"
            )
            built[name] = kind(**usual | given)
        return built

    @property
    def stated(self) -> PreprocessOptions | None:
        """What is said of the model's preprocessing, None if nothing is."""
        from partswap.models.preprocess_options import PreprocessOptions

        stated = PreprocessOptions(**{name: getattr(self, name) for name in PREPARATION})
        return None if stated == PreprocessOptions() else stated

    def record(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        fields = RunConfig.model_fields
        usual = {n for n in fields if _extra(n)["added_later"] and getattr(self, n) == fields[n].default}
        return self.model_dump(mode="json", fallback=str, exclude=usual)

    def identity_fields(self) -> dict[str, Any]:
        """Return the fields that decide the result; the path of an auxiliary's weights is left out."""
        fields = {name: value for name, value in self.record().items() if _extra(name)["affects_result"]}
        if self.auxiliary is not None:
            fields["auxiliary"] = self._auxiliary(lambda _: None)
        return fields

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunConfig:
        """Return the configuration that `record` wrote."""
        return cls(dict.fromkeys(record, "in its record"), **record)


def flag_of(name: str) -> str:
    """Return the flag of a field."""
    return _extra(name)["flag"] or f"--{name.replace('_', '-')}"


def flags_of(name: str) -> list[str]:
    """Return all spellings of the flag of a field, the usual one first."""
    alias = _extra(name)["alias"]
    return [flag_of(name), *([alias] if alias else [])]


def read_config(path: Path | None, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Return a configuration from a YAML file (if there is one) and flags, which win where they are not None."""
    values, where = ({}, {}) if path is None else _read_yaml(path)
    # Settings last: which methods have them must be known.
    for name, value in sorted((flags or {}).items(), key=lambda item: item[0] == "settings"):
        if value is None or value == []:
            continue
        in_file: Mapping[str, Any] = values[name] if isinstance(values.get(name), Mapping) else {}
        if name == "options":
            value = {**in_file, **parse_options(value)}
        elif name == "settings":
            value = _parse_settings(in_file, value, values.get("methods"))
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


def _parse_settings(given: Mapping[str, Any], texts: Sequence[str], methods: Any) -> dict[str, dict[str, Any]]:
    """Return settings by method; what is said for all methods gives way to what is said for one."""
    settings = {method: dict(values) for method, values in given.items() if isinstance(values, Mapping)}
    options = parse_options(texts)
    for name, value in sorted(options.items(), key=lambda item: "." in item[0]):
        method, dot, setting = name.partition(".")
        for taker in [method] if dot else _takers(name, methods):
            settings.setdefault(taker, {})[setting if dot else name] = value
    return settings


def _takers(setting: str, methods: Any) -> list[str]:
    """Return which of the methods have a setting."""
    from partswap.search import METHODS

    names = [methods] if isinstance(methods, str) else methods or RunConfig.model_fields["methods"].default
    if not isinstance(names, list | tuple):
        return []  # refused with a better word where all fields are checked
    takes = {name: inspect.signature(METHODS.get(str(name))).parameters for name in names}
    takers = [name for name, parameters in takes.items() if setting in parameters]
    if not takers:
        parameters_of_all = sorted({parameter for parameters in takes.values() for parameter in parameters})
        raise SettingError(
            f"no method that is run has the setting {setting!r} (methods: {', '.join(takes)}).",
            f"{suggest(setting, parameters_of_all)} Settings: {', '.join(parameters_of_all)}.".strip(),
        )
    return takers


def _refusal(error: ValidationError, values: Mapping[str, Any], where: Mapping[str, str]) -> SettingError:
    """Return the first of pydantic's complaints in our words; a name that does not exist comes before all others."""
    problems = error.errors()
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    name, kind, limits = str(first["loc"][0]), first["type"], first.get("ctx", {})
    value, place = values.get(name), f" ({where[name]})" if name in where else ""
    fields = RunConfig.model_fields
    match kind:
        case "extra_forbidden":
            return SettingError(
                f"there is no field {name!r}{place}.", suggest(name, fields) or f"Fields: {', '.join(fields)}."
            )
        case "missing":
            return SettingError(f"{name} is missing.", f"Write '{name}: ...' into the file, or pass {flag_of(name)}.")
        case "greater_than_equal":
            return SettingError(f"{name} is {value}.", f"Use {limits['ge']} or more.")
        case "greater_than":
            return SettingError(f"{name} is {value}.", f"Use more than {limits['gt']:g}.")
        case "literal_error":
            choices = typing.get_args(fields[name].annotation)
            return SettingError(
                f"{name} is {value!r}.", suggest(str(value), choices) or f"Use one of {', '.join(choices)}."
            )
    wanted = WANTED.get(name) or WANTED[kind.partition("_")[0]]
    return SettingError(f"{name} is {value!r}{place}.", f"Give {wanted}.")


def _extra(name: str) -> dict[str, Any]:
    return typing.cast("dict[str, Any]", RunConfig.model_fields[name].json_schema_extra)
