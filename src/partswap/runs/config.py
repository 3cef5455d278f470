"""What a run is made of: one typed record, read from YAML, from flags, or both."""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any

from partswap.errors import SettingError, suggest
from partswap.options import AUXILIARY_HELP, MODEL_HELP

if TYPE_CHECKING:
    # Only there, and where they are used: the command line reads the fields below, and must not wait for torch.
    from partswap.search import Method

REQUIRED = " Required, here or in the file."


@dataclass(frozen=True)
class About:
    """What there is to know about a field.

    Attributes
    ----------
    help : str
        For people.
    flag : str or None
        On the command line, if it is not the field's name.
    matters : bool
        Whether another value would give other explanations.
    """

    help: str
    flag: str | None = None
    matters: bool = True


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything one run needs to know; each field is a line of a YAML file and a flag of ``partswap run``.

    Attributes are described by their help texts: ``partswap run --help``.

    Examples
    --------
    >>> config = RunConfig(data="aviary", model="aviary:vgg", methods=("paper",), settings={"paper": {"keep": 0.1}})
    >>> config.build_methods()["paper"].keep
    0.1
    """

    data: Annotated[str, About(f"Data set: cub, dogs, inaturalist, folder, aviary.{REQUIRED}")]
    # Where files lie does not matter, what is in them does: data and weights are compared by their fingerprints.
    path: Annotated[Path | None, About("Its folder.", matters=False)] = None
    split: Annotated[str, About("Images to explain: a split of the data set (see partswap data list).")] = "test"
    options: Annotated[Mapping[str, Any], About("NAME=VALUE for the data set; repeat for more.", flag="--option")] = (
        field(default_factory=dict)
    )
    model: Annotated[str, About(MODEL_HELP + REQUIRED, matters=False)]
    weights: Annotated[str | None, About("Its weights: a file, or 'default' for official ones.", matters=False)] = None
    layer: Annotated[str | None, About("Where to cut it (see partswap layers).")] = None
    auxiliary: Annotated[str | None, About(AUXILIARY_HELP)] = None
    tau: Annotated[float | None, About("Temperature of the auxiliary, if not its own.")] = None
    methods: Annotated[
        tuple[str, ...], About("Method: goyal, paper, partswap, scout, hard; repeat.", flag="--method")
    ] = ("partswap",)
    settings: Annotated[
        Mapping[str, Mapping[str, Any]], About("METHOD.NAME=VALUE; repeat for more.", flag="--setting")
    ] = field(default_factory=dict)
    distractors: Annotated[int, About("How many images to take regions from.")] = 20
    selection: Annotated[str, About("Which class to explain towards: confusion or attributes.")] = "confusion"
    queries: Annotated[int | None, About("Explain only so many images, drawn at random.")] = None
    seed: Annotated[int, About("For everything random.")] = 0
    precision: Annotated[str, About("Of features: float32, bfloat16, or auto, what this machine is fast at.")] = "auto"
    device: Annotated[str, About("Where networks compute: cpu, cuda, mps, or auto.")] = "cpu"
    shard: Annotated[int, About("Explanations per file.")] = 20
    cache: Annotated[
        Path | None, About("Folder for features; default: $PARTSWAP_CACHE, or your cache.", matters=False)
    ] = None
    out: Annotated[Path, About("Folder of the run.", matters=False)] = Path("out/run")
    workers: Annotated[int | None, About("Processes; one per core if not given.", matters=False)] = None
    on: Annotated[str, About("Where: local or ray.", matters=False)] = "local"
    address: Annotated[
        str | None, About("Address of a Ray cluster; one is started here if not given.", matters=False)
    ] = None

    def __post_init__(self) -> None:
        from partswap.data.base import DATASETS

        DATASETS.get(self.data)
        least = {"distractors": 1, "queries": 1, "seed": 0, "shard": 1, "workers": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise SettingError(f"{name} is {value}.", f"Use {low} or more.")
        choices = {
            "selection": ("confusion", "attributes"),
            "precision": ("float32", "bfloat16", "auto"),
            "device": ("cpu", "cuda", "mps", "auto"),
            "on": ("local", "ray"),
        }
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                raise SettingError(f"{name} is {value!r}.", suggest(value, known) or f"Use one of {', '.join(known)}.")
        if self.tau is not None and not self.tau > 0:
            raise SettingError(f"tau is {self.tau}.", "A temperature is above zero.")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise SettingError(f"methods is {list(self.methods)}.", "Name at least one, and none twice.")
        self.build_methods()

    def build_methods(self, tau: float | None = None) -> dict[str, Method]:
        """Return the methods by name with their settings; `tau` is the auxiliary's, for those that have one."""
        from partswap.search import METHODS
        from partswap.search.settings import changed

        made = {name: METHODS.get(name)() for name in self.methods}
        for name in self.settings:
            if name not in made:
                raise SettingError(
                    f"settings are for the method {name!r}, which is not run.",
                    f"{suggest(name, made)} Methods: {', '.join(made)}.".strip(),
                )
        built = {}
        for name, method in made.items():
            known = [f.name for f in fields(method) if f.init]
            if tau is not None and "tau" in known:
                method = changed(method, tau=tau)
            for setting, value in self.settings.get(name, {}).items():
                if setting not in known:
                    raise SettingError(
                        f"the method {name} has no setting {setting!r}.",
                        f"{suggest(setting, known)} It has: {', '.join(known)}.".strip(),
                    )
                method = replace(method, **{setting: _number(value)})
            built[name] = method
        return built

    def record(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def deciding(self) -> dict[str, Any]:
        """Return the fields that decide what comes out; of an auxiliary not where its weights lie."""
        from partswap.models.auxiliaries import AuxiliaryChoice

        found = {name: value for name, value in self.record().items() if about_field(name)[1].matters}
        if self.auxiliary is not None:
            found["auxiliary"] = str(replace(AuxiliaryChoice.parse(self.auxiliary), weights=None))
        return found

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunConfig:
        """Return what `record` told."""
        return make_config({name: (value, "in its record") for name, value in record.items()})


def about_field(name: str) -> tuple[Any, About]:
    """Return the type of a field and what there is to know about it."""
    kind, about = typing.get_args(_hints()[name])
    return kind, about


@functools.cache
def _hints() -> dict[str, Any]:
    return typing.get_type_hints(RunConfig, include_extras=True)


def make_config(given: Mapping[str, tuple[Any, str]]) -> RunConfig:
    """Return a configuration from values, each with where it was given, after checking names and types."""
    known = {f.name: f for f in fields(RunConfig)}
    for name, (_, where) in given.items():
        if name not in known:
            raise SettingError(
                f"there is no field {name!r} ({where}).", suggest(name, known) or f"Fields: {', '.join(known)}."
            )
    for name, about in known.items():
        if name not in given and about.default is MISSING and about.default_factory is MISSING:
            raise SettingError(f"{name} is missing.", f"Write '{name}: ...' into the file, or pass {flag_of(name)}.")
    return RunConfig(**{name: _checked(name, value, where) for name, (value, where) in given.items()})


def flag_of(name: str) -> str:
    """Return the flag of a field."""
    return about_field(name)[1].flag or f"--{name.replace('_', '-')}"


def kind_of(annotation: Any) -> tuple[Any, bool]:
    """Return what a field holds and whether it may be None."""
    if isinstance(annotation, UnionType):
        inner = [part for part in typing.get_args(annotation) if part is not type(None)]
        return inner[0], True
    return annotation, False


def _checked(name: str, value: Any, where: str) -> Any:
    kind, optional = kind_of(about_field(name)[0])
    if value is None and optional:
        return None
    origin = typing.get_origin(kind)
    if origin is tuple:
        words = [value] if isinstance(value, str) else value
        if isinstance(words, Sequence) and all(isinstance(word, str) for word in words):
            return tuple(words)
        wanted = "a list of words"
    elif origin is Mapping:
        nested = name == "settings"
        if isinstance(value, Mapping) and all(
            isinstance(k, str) and (isinstance(v, Mapping) or not nested) for k, v in value.items()
        ):
            return {k: dict(v) if nested else v for k, v in value.items()}
        wanted = "METHOD: {NAME: VALUE}" if nested else "NAME: VALUE pairs"
    elif kind is Path:
        if isinstance(value, str | Path):
            return Path(value)
        wanted = "a path"
    elif kind is float:
        value = _number(value)
        if isinstance(value, float | int) and not isinstance(value, bool):
            return float(value)
        wanted = "a number"
    else:
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
        wanted = {int: "a whole number", str: "text (in quotes if need be)"}[kind]
    raise SettingError(f"{name} is {value!r} ({where}).", f"Give {wanted}.")


def _number(value: Any) -> Any:
    """Return the number that a text is, if it is one: YAML takes 1e-3 for a word."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
