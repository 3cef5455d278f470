"""``partswap parts ...``: words for the parts of one's own images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import (
    Cache,
    Data,
    DataOptions,
    DataPath,
    Precision,
    check_auxiliary_name,
    checked,
    output_file,
    resolve_precision,
    say,
)
from partswap.errors import SettingError
from partswap.utils.options import AUXILIARY_HELP, parse_options
from partswap.utils.progress import bars, step

app = typer.Typer(help="Words for the parts of your images.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Words for the parts of your images."""


@app.command("name")
def name(
    data: Data,
    auxiliary: Annotated[str, checked(AUXILIARY_HELP, check_auxiliary_name)],
    out: Annotated[Path, output_file("Where the names go (JSON); a picture is drawn beside it.")],
    path: DataPath = None,
    option: DataOptions = None,
    split: Annotated[str, typer.Option(help="Which images.")] = "train",
    clusters: Annotated[int, typer.Option(min=1, help="How many clusters.")] = 20,
    names: Annotated[
        list[str] | None, typer.Option("--name", help="NUMBER=WORD, instead of being asked; repeat.")
    ] = None,
    precision: Precision = "auto",
    cache: Cache = None,
) -> None:
    """Show the clusters of an auxiliary as pictures and ask for a word for each; no word means no part."""
    from partswap.analysis.cluster_labels import ClusterLabeler
    from partswap.data.base import open_dataset

    if out.suffix != ".json":
        raise SettingError(f"{out} is no name of a JSON file.", "Let it end in .json.")
    named = parse_options(names)
    for number in named:
        if not number.isdecimal() or int(number) >= clusters:
            raise SettingError(f"there is no cluster {number}.", f"Use 0 to {clusters - 1}.")
    images = open_dataset(data, path, split, **parse_options(option))
    labeler = ClusterLabeler(
        images, auxiliary, clusters, cache=cache, precision=resolve_precision(precision), track=bars
    )
    words = labeler.known(out)
    for number, word in named.items():
        words[int(number)] = None if word is None else str(word).strip() or None
    labeler.save(out, words)
    picture = out.with_suffix(".png")
    with step(bars, "drawing"):
        labeler.plot(words, picture)
    say(f"drew {picture}: look at it, every row is a cluster")
    if not names:
        for cluster, word in enumerate(words):
            typed: str = typer.prompt(f"cluster {cluster}", default=word or "", show_default=bool(word))
            words[cluster] = typed.strip() or None
            labeler.save(out, words)  # what was typed is never lost
        labeler.plot(words, picture)
    say(f"saved {out}: {sum(word is not None for word in words)} of {len(words)} clusters have a name")
