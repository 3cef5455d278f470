"""What commands share: flags, the configuration made of them, and printing."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from partswap.errors import SettingError, suggest
from partswap.runs.config import PREPARATION, RunConfig, flags_of, read_config
from partswap.utils.options import MODEL_HELP as MODEL_HELP
from partswap.utils.progress import bars
from partswap.utils.terminal import wrapped

if TYPE_CHECKING:
    from partswap.data.base import Dataset
    from partswap.explainer.explainer import Explainer
    from partswap.models.checkpoints import Classifier
    from partswap.models.preprocess_options import PreprocessOptions
    from partswap.runs.context import RunContext

console = Console()

Command = Callable[..., None]


def flag(name: str, **more: Any) -> Any:
    """Return the option of a field of `RunConfig`: its flag and its help text."""
    return typer.Option(*flags_of(name), **{"help": RunConfig.model_fields[name].description, **more})


def output_folder(text: str) -> Any:
    """Return the option of a folder to write to, which is checked before anything is computed."""
    return typer.Option(help=text, callback=lambda place: _writable(place, folder=True))


def output_file(text: str) -> Any:
    """Return the option of a file to write, whose place is checked before anything is computed."""
    return typer.Option(help=text, callback=lambda place: _writable(place, folder=False))


def output_picture(text: str) -> Any:
    """Return the option of a picture to write, whose place and suffix are checked before anything is computed."""
    return typer.Option(help=text, callback=writable_picture)


def writable_picture(place: Path) -> Path:
    """Return where a picture goes, after checking that one can be written there."""
    _writable(place, folder=False)
    calls("partswap.inputs.images:check_picture")(place)
    return place


def writable_folder(place: Path) -> Path | None:
    """Return a folder to write to, after checking that it can be."""
    return _writable(place, folder=True)


def output_page(text: str) -> Any:
    """Return the option of a page to write: a folder, or one file that ends in .html."""
    return typer.Option(help=text, callback=lambda place: _writable(place, folder=place.suffix != ".html"))


def checked(text: str, check: Callable[[Any], object], **more: Any) -> Any:
    """Return an option whose values, each of them, are checked before anything else is done."""

    def callback(value: Any) -> Any:
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None:
                check(each)
        return value

    return typer.Option(help=text, callback=callback, **more)


def one_of(*names: str) -> Callable[[str], str]:
    """Return a check that a value is one of the names."""

    def check(value: str) -> str:
        if value not in names:
            raise SettingError(f"there is no {value!r} here.", suggest(value, names) or f"Use {' or '.join(names)}.")
        return value

    return check


def calls(place: str, *exempt: str | None) -> Callable[[Any], Any]:
    """Return a check by its ``module:function``, imported when it is first needed; it returns the value.

    None and the `exempt` values pass without it.
    """

    def check(value: Any) -> Any:
        if value is not None and value not in exempt:
            module, _, name = place.partition(":")
            attrgetter(name)(import_module(module))(value)
        return value

    return check


#: Checks that raise an error if there is no such method or auxiliary.
check_method = calls("partswap.search:METHODS.get")
check_auxiliary_name = calls("partswap.models.auxiliaries:check_auxiliary", "none")


def check_exists(place: Path | str) -> None:
    """Raise an error if there is no such file or folder."""
    if not Path(place).exists():
        raise SettingError(f"there is no file or folder {place}.", "Check the path.")


def _writable(place: Path | None, *, folder: bool) -> Path | None:
    if place is not None:
        from partswap.utils.files import check_writable

        check_writable(place, folder=folder)
    return place


# For commands that make no `RunConfig` of them.
Data = Annotated[str, flag("data")]
DataPath = Annotated[Path | None, flag("path")]
DataOptions = Annotated[list[str] | None, flag("options")]
Model = Annotated[str, flag("model")]
Weights = Annotated[str | None, flag("weights")]
Classes = Annotated[str | None, flag("classes")]
Layer = Annotated[str | None, flag("layer")]
Cache = Annotated[Path | None, flag("cache", callback=calls("partswap.utils.store:check_cache"))]
Precision = Annotated[str, flag("precision", callback=calls("partswap.models.precision:check_precision", "auto"))]
Device = Annotated[str | None, flag("device", show_default="cuda if there is one, else cpu")]
Seed = Annotated[int, flag("seed", min=0)]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of torch; all cores by default.")]


def with_config(*names: str, file: bool = False, **defaults: Any) -> Callable[[Command], Command]:
    """Give a command flags for fields of `RunConfig`, and as its first argument the configuration they make.

    `defaults` are fields whose default is the command's own. A command that takes a model takes how its images are
    prepared, too. With `file`, a YAML file (the command's argument) may give what the flags do not.
    """
    takes_model = "model" in (*names, *defaults)
    names = (*names, *(name for name in PREPARATION if takes_model and name not in names))
    defaults = {name: RunConfig.model_fields[name].default for name in names} | defaults

    def decorate(command: Command) -> Command:
        def run(**values: Any) -> None:
            flags = {name: values.pop(name) for name in defaults}
            command(read_config(values.pop("config", None), flags), **values)

        parameters = [_parameter(name, default, file) for name, default in defaults.items()]
        if file:
            argument = typer.Argument(help="YAML file with the same fields as the flags below, which win.")
            parameters.append(_keyword("config", Annotated[Path | None, argument], None))
        return _signed(run, command, parameters + _own(command))

    return decorate


def with_preparation(command: Command) -> Command:
    """Give a command the flags for how a model's images are prepared, and `PreprocessOptions` or None first."""

    def run(**values: Any) -> None:
        from partswap.models.preprocess_options import PreprocessOptions

        stated = PreprocessOptions(**{name: values.pop(name) for name in PREPARATION})
        command(None if stated == PreprocessOptions() else stated, **values)

    return _signed(run, command, _own(command) + [_parameter(name, None, False) for name in PREPARATION])


def with_groups(command: Command) -> Command:
    """Give a command, for each of its parameters that is a dataclass, the flags that the dataclass has as fields."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in own if is_dataclass(p.annotation)}

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
        command(**values)

    parameters = []
    for parameter in own:
        parameters += _fields_of(parameter.annotation) if parameter.name in groups else [_keyword_only(parameter)]
    return _signed(run, command, parameters)


def _fields_of(group: Any) -> list[inspect.Parameter]:
    kinds = typing.get_type_hints(group, include_extras=True)
    defaults = {f.name: inspect.Parameter.empty if f.default is MISSING else f.default for f in fields(group)}
    return [_keyword(name, kinds[name], default) for name, default in defaults.items()]


def _own(command: Command) -> list[inspect.Parameter]:
    """Return the parameters of a command but the first."""
    return [_keyword_only(p) for p in list(inspect.signature(command, eval_str=True).parameters.values())[1:]]


def _keyword_only(parameter: inspect.Parameter) -> inspect.Parameter:
    return _keyword(parameter.name, parameter.annotation, parameter.default)


def _signed(run: Command, command: Command, parameters: list[inspect.Parameter]) -> Command:
    """Return `run` with other parameters, and a command's name and help."""
    parameters.sort(key=lambda p: p.default is not p.empty)  # what is required first
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _parameter(name: str, default: Any, file: bool) -> inspect.Parameter:
    field = RunConfig.model_fields[name]
    kind, details = _kind(field.annotation), {}
    if default == {}:
        default = None
    required = field.is_required() and default is field.default
    if file and required:
        default, details = None, {"help": f"{field.description} Required, here or in the file."}
    elif file and default is not None:  # None: the file decides
        default, details = None, {"show_default": ", ".join(default) if isinstance(default, tuple) else str(default)}
    elif required:
        default = inspect.Parameter.empty
    return _keyword(name, Annotated[kind | None, flag(name, **details)], default)


def _kind(annotation: Any) -> Any:
    """Return the type that the command line reads for a field: text where `RunConfig` checks the value itself."""
    if isinstance(annotation, UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    origin = typing.get_origin(annotation)
    return {tuple: list[str], Mapping: list[str], typing.Literal: str}.get(origin, annotation)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def open_context(config: RunConfig) -> RunContext:
    """Return data, classifier and auxiliary of a configuration; print what cannot be read, and show progress."""
    from partswap.runs.context import open_run_context

    hush_warnings()
    context = open_run_context(on_device(config), bars)
    say_skipped(config.options, context.data)
    say_notes(context.explainer)
    return context


def open_named(model: str, weights: str | None, classes: str | None, stated: PreprocessOptions | None) -> Classifier:
    """Return the classifier of a name; of an architecture without weights, one with random weights."""
    from partswap.models.open import describe, is_architecture, open_classifier
    from partswap.models.zoo import load_model

    if weights is None and is_architecture(model):
        return describe(load_model(model), model, classes, stated)
    return open_classifier(model, weights, classes, stated)


def hush_warnings() -> None:
    """Hide the warnings of an explainer: commands print them as notes."""
    import warnings

    from partswap.explainer.notes import PartswapWarning

    warnings.simplefilter("ignore", PartswapWarning)


def say_notes(explainer: Explainer, start: int = 0) -> int:
    """Print the notes of an explainer from number `start` on, and return how many there are."""
    for note in explainer.notes[start:]:
        say(f"note: {note}")
    return len(explainer.notes)


def say(message: str) -> None:
    """Print plain text: paths and class names may look like markup. Only a terminal gets long lines wrapped."""
    text = wrapped(message, console.width) if console.is_terminal else message
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def say_skipped(options: Mapping[str, Any], *sets: Dataset) -> None:
    """Print how many images cannot be read, if they were to be left out, and which files are no images."""
    for data in sets if options.get("skip_bad") else ():
        count = len(data.skipped)
        say(f"{data.split}: {count} of {count + len(data)} images left out, unreadable")
    for data in {getattr(data, "root", None): data for data in sets}.values():  # splits lie in one folder
        if text := data.unread():
            say(f"note: {text}.")


def resolve_precision(precision: str) -> str:
    """Return what ``auto`` means on this machine."""
    from partswap.models.precision import fast_precision

    return fast_precision() if precision == "auto" else precision


def on_device(config: RunConfig) -> RunConfig:
    """Return a configuration whose device is one that is here; ``auto`` is the fastest."""
    from partswap.models.precision import check_device

    return config.with_(device=check_device(config.device))


def use_threads(threads: int | None) -> None:
    """Set the number of torch's threads, if one is given."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
