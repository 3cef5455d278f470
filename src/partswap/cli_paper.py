"""``partswap paper ...``: the paper's tables and figures, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from partswap.cli_train import (
    Cache,
    Data,
    DataOptions,
    DataPath,
    PrecisionOption,
    Threads,
    data_options,
    resolve_precision,
    use_threads,
)

paper_app = typer.Typer(help="The paper's tables and figures.", no_args_is_help=True)
console = Console()

Model = Annotated[str, typer.Option(help="Folder of a trained classifier, aviary:vgg, or a zoo name.")]
Weights = Annotated[str | None, typer.Option(help="Weights of a zoo model.")]
Layer = Annotated[str | None, typer.Option(help="Where to cut the classifier.")]
SplitOption = Annotated[str, typer.Option(help="Images to explain.")]
Queries = Annotated[int | None, typer.Option(help="Explain only so many images, drawn at random.")]
Out = Annotated[Path, typer.Option(help="Folder for the table and pictures.")]
Seed = Annotated[int, typer.Option(help="For everything random.")]


@paper_app.command("auxiliary")
def auxiliary(
    data: Data,
    model: Model,
    auxiliary: Annotated[list[str], typer.Option(help="NAME, NAME=WEIGHTS or NAME=WEIGHTS@LAYER; repeat for rows.")],
    path: DataPath = None,
    option: DataOptions = None,
    split: SplitOption = "test",
    weights: Weights = None,
    layer: Layer = None,
    clusters: Annotated[list[int] | None, typer.Option(help="Numbers of clusters; repeat the flag.")] = None,
    queries: Queries = None,
    out: Out = Path("out/auxiliary"),
    precision: PrecisionOption = "auto",
    cache: Cache = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Table 4: Same-KP with one distractor, and part clustering accuracy, of several auxiliaries."""
    from partswap.experiments.paper.auxiliary import CLUSTERS, auxiliary_table
    from partswap.experiments.setting import AuxiliaryChoice, open_setting
    from partswap.progress import bars

    use_threads(threads)
    setting = open_setting(
        data, path, model, split=split, weights=weights, layer=layer, cache=cache,
        precision=resolve_precision(precision), track=bars, **data_options(option),
    )  # fmt: skip
    rows = [AuxiliaryChoice.parse(text) for text in auxiliary]
    table = auxiliary_table(setting, rows, clusters=clusters or CLUSTERS, queries=queries, seed=seed, pictures=out,
                            track=bars)  # fmt: skip
    console.print(table.rich())
    for saved in table.save(out, "auxiliary"):
        console.print(f"saved {saved}", markup=False, highlight=False, soft_wrap=True)
