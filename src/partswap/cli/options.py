"""Options that several commands have, and what is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from partswap.options import AUXILIARY_HELP, MODEL_HELP

if TYPE_CHECKING:
    from partswap.data.base import Dataset

console = Console()

Data = Annotated[str, typer.Option(help="Data set: cub, dogs, inaturalist, folder, aviary.")]
DataPath = Annotated[Path | None, typer.Option("--path", help="Its folder.")]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="NAME=VALUE for the data set (supercategory=Birds); repeat for more."),
]
SplitOption = Annotated[str, typer.Option(help="Images to explain: a split of the data set (see partswap data list).")]
Model = Annotated[str, typer.Option(help=MODEL_HELP)]
Weights = Annotated[str | None, typer.Option(help="Its weights: a file, or 'default' for official ones.")]
Layer = Annotated[str | None, typer.Option(help="Where to cut it (see partswap layers).")]
AuxiliaryOption = Annotated[str | None, typer.Option(help=AUXILIARY_HELP)]
Distractors = Annotated[int, typer.Option(help="How many images to take regions from.")]
Cache = Annotated[Path | None, typer.Option(help="Folder for features; default: $PARTSWAP_CACHE, or your cache.")]
PrecisionOption = Annotated[
    str, typer.Option(help="Of features: float32, bfloat16, or auto, what this machine is fast at.")
]
Seed = Annotated[int, typer.Option(help="For everything random.")]
Threads = Annotated[int | None, typer.Option(help="Threads of torch; all cores by default.")]


def say_skipped(options: Mapping[str, Any], *sets: Dataset) -> None:
    """Print how many images cannot be read, if they were to be left out."""
    for data in sets if options.get("skip_bad") else ():
        count = len(data.skipped)
        console.print(f"{data.split}: {count} of {count + len(data)} images left out, unreadable", highlight=False)


def resolve_precision(precision: str) -> str:
    """Return what ``auto`` means on this machine."""
    from partswap.models.precision import fast_precision

    return fast_precision() if precision == "auto" else precision


def use_threads(threads: int | None) -> None:
    """Tell torch how many threads to use, if told."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
