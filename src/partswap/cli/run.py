"""``partswap run`` and ``partswap compare``."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

console = Console()


def add_to(app: typer.Typer) -> None:
    """Add both commands to the command line."""
    app.command("run")(_run_command())
    app.command("compare")(compare)


def _run_command() -> Callable[..., None]:
    """Return the command with one flag per field of `RunConfig`: what the file can say, the flags can."""
    from partswap.runs.config import RunConfig, about_field, flag_of, kind_of

    def run(config: Path | None, **flags: Any) -> None:
        from partswap.progress import bars
        from partswap.runs.config_files import read_config
        from partswap.runs.run import metrics_table
        from partswap.runs.run import run as execute

        made = execute(read_config(config, flags), track=bars)
        console.print(metrics_table(made).rich())
        console.print(f"run: {made.folder}", markup=False, highlight=False, soft_wrap=True)

    argument = typer.Argument(help="YAML file with the same fields as the flags below, which win.", show_default=False)
    annotation = Annotated[Path | None, argument]
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("config", keyword, default=None, annotation=annotation)]
    for field in fields(RunConfig):
        annotated, about = about_field(field.name)
        kind, _ = kind_of(annotated)
        # Not given is None whatever the default is, so that a flag is known to have been given.
        if typing.get_origin(kind) in (tuple, Mapping):
            kind = list[str]
        usual = "" if field.default in (MISSING, None) else f" [default: {_text(field.default)}]"
        option = typer.Option(flag_of(field.name), help=about.help + usual, show_default=False)
        parameters.append(
            inspect.Parameter(field.name, keyword, default=None, annotation=Annotated[kind | None, option])
        )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = "Explain a whole split with several methods; a killed run goes on with the same command."
    return run


def _text(default: Any) -> str:
    return ", ".join(default) if isinstance(default, tuple) else str(default)


def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a run.")],
    second: Annotated[Path, typer.Argument(help="Folder of another run on the same images.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the table and pictures of the differences.")] = None,
    samples: Annotated[int, typer.Option(help="Resamples for the intervals.")] = 2000,
    seed: Annotated[int, typer.Option(help="For the resampling.")] = 0,
) -> None:
    """Compare the metrics of two runs, image by image, with confidence intervals."""
    from partswap.progress import bars
    from partswap.studies.compare import compare_runs

    found = compare_runs(first, second, samples=samples, seed=seed, track=bars)
    console.print(found.table().rich())
    for method, images in found.names().items():
        text = f"differ most ({method}): {', '.join(images) or 'none do'}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        for saved in (*found.table().save(out, "compare"), *found.draw(out)):
            console.print(f"saved {saved}", markup=False, highlight=False, soft_wrap=True)
