"""The command line: puts the commands together, each from a file of its own."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from partswap._version import __version__
from partswap.cli import aviary, check, data, paper, parts, study, train
from partswap.cli.classes import classes
from partswap.cli.compare import compare
from partswap.cli.demo import demo
from partswap.cli.encode import encode
from partswap.cli.explain import explain
from partswap.cli.explore import explore
from partswap.cli.figures import figures
from partswap.cli.layers import layers
from partswap.cli.report import report
from partswap.cli.run import run
from partswap.cli.show import show
from partswap.cli.tune import tune
from partswap.errors import PartswapError

#: How the shell and typer call what ended by Ctrl-C.
INTERRUPTED = 130
#: How often GNU's OpenMP, which torch brings along on Linux, looks for work before its threads go to sleep.
SPINS = "1000"
app = typer.Typer(
    name="partswap",
    help="Which regions of an image would have to look like which for the model to say another class?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the tables of rich cut names of flags in a terminal of 80 columns
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (demo, layers, classes, explain, explore, show, figures, tune, encode, run, report, compare):
    app.command()(_command)
_groups = (aviary, data, train, parts, paper, study, check)
for _group in _groups:
    app.add_typer(_group.app, name=_group.__name__.rpartition(".")[2])
for _typer in (app, *(_group.app for _group in _groups)):
    for _info in _typer.registered_commands:  # lists of commands show whole sentences, not their beginnings
        _info.short_help = inspect.cleandoc((_info.callback and _info.callback.__doc__) or "").partition("\n\n")[0]


def main() -> None:
    """Run the command line; a partswap error is one line on standard error and exit code 1, Ctrl-C one and 130."""
    _wait_asleep()
    try:
        app()
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            _stderr("", "interrupted: runs, trainings and caches keep what is done, the same command goes on")
        raise
    except PartswapError as error:
        _complain(error.in_flags())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}. Check the path, and that there is room.")
        sys.exit(1)


def _wait_asleep() -> None:
    """Let torch's threads, which are started later, wait for each other asleep rather than by spinning.

    The search is many small operations. Where other programs keep the cores busy, threads that spin wait for one that
    has no core, at every operation: ten times the time of a single thread was seen.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def _complain(message: str) -> None:
    _stderr("error: ", message)


def _stderr(word: str, message: str) -> None:
    Console(stderr=True).print(Text(word, "bold red").append(message, "not bold default"), soft_wrap=True)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"partswap {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Counterfactual explanations of image classifiers."""
