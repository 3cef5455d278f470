"""``partswap check ...``: are explanations about the model, and do they hold still?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from partswap.cli import options as common
from partswap.options import parse_options

if TYPE_CHECKING:
    from partswap.runs.workbench import Workbench
    from partswap.studies.tables import ResultTable

check_app = typer.Typer(help="Are explanations about the model, and do they hold still?", no_args_is_help=True)
console = Console()

MethodOption = Annotated[str, typer.Option(help="Method to check: goyal, paper, partswap, scout, hard.")]
Queries = Annotated[int, typer.Option(help="How many images to explain, drawn at random.")]
Out = Annotated[Path | None, typer.Option(help="Folder to write the table to, as Markdown and CSV.")]


@check_app.command("sanity")
def sanity(
    data: common.Data,
    model: common.Model,
    path: common.DataPath = None,
    option: common.DataOptions = None,
    split: common.SplitOption = "test",
    weights: common.Weights = None,
    layer: common.Layer = None,
    auxiliary: common.AuxiliaryOption = None,
    method: MethodOption = "partswap",
    which: Annotated[list[str] | None, typer.Option(help="Weights to randomise: head, all; repeat the flag.")] = None,
    queries: Queries = 100,
    distractors: common.Distractors = 5,
    out: Out = None,
    precision: common.PrecisionOption = "auto",
    cache: common.Cache = None,
    seed: common.Seed = 0,
    threads: common.Threads = None,
) -> None:
    """Randomise the model's weights: explanations that do not change are not about the model."""
    from partswap.progress import bars
    from partswap.studies.sanity import DEPTHS, check_sanity, sanity_table

    common.use_threads(threads)
    bench = _setting(data, path, model, split, weights, layer, auxiliary, cache, precision, option)
    rows = check_sanity(bench, method=method, which=which or DEPTHS, queries=queries, distractors=distractors,
                        seed=seed, track=bars)  # fmt: skip
    _finish(sanity_table(rows, _note(bench, method)), out, "sanity")


@check_app.command("stability")
def stability(
    data: common.Data,
    model: common.Model,
    path: common.DataPath = None,
    option: common.DataOptions = None,
    split: common.SplitOption = "test",
    weights: common.Weights = None,
    layer: common.Layer = None,
    auxiliary: common.AuxiliaryOption = None,
    method: MethodOption = "partswap",
    pixels: Annotated[list[int] | None, typer.Option(help="Shifts to try; repeat the flag. Default 8.")] = None,
    queries: Queries = 100,
    distractors: common.Distractors = 5,
    out: Out = None,
    precision: common.PrecisionOption = "auto",
    cache: common.Cache = None,
    seed: common.Seed = 0,
    threads: common.Threads = None,
) -> None:
    """Shift the queries by some pixels: explanations should stay where they were."""
    from partswap.progress import bars
    from partswap.studies.sanity import check_stability, stability_table

    common.use_threads(threads)
    bench = _setting(data, path, model, split, weights, layer, auxiliary, cache, precision, option)
    rows = [
        check_stability(
            bench, method=method, pixels=count, queries=queries, distractors=distractors, seed=seed, track=bars
        )
        for count in pixels or [8]
    ]
    _finish(stability_table(rows, _note(bench, method)), out, "stability")


def _setting(
    data: str,
    path: Path | None,
    model: str,
    split: str,
    weights: str | None,
    layer: str | None,
    auxiliary: str | None,
    cache: Path | None,
    precision: str,
    option: list[str] | None,
) -> Workbench:
    from partswap.models.auxiliaries import AuxiliaryChoice
    from partswap.progress import bars
    from partswap.runs.workbench import open_workbench

    options = parse_options(option)
    bench = open_workbench(
        data, path, model, split=split, weights=weights, layer=layer, cache=cache, track=bars,
        auxiliary=AuxiliaryChoice.parse(auxiliary) if auxiliary else None,
        precision=precision, **options,
    )  # fmt: skip
    common.say_skipped(options, bench.data)
    return bench


def _note(bench: Workbench, method: str) -> str:
    helper = bench.auxiliary.name if bench.auxiliary else "none"
    network = f"{bench.classifier.architecture} cut at {bench.explainer.cut.layer}"
    return f"Method {method}, {network}, auxiliary {helper}. In brackets: 95 % intervals, bootstrap over queries."


def _finish(table: ResultTable, out: Path | None, name: str) -> None:
    console.print(table.rich())
    for saved in table.save(out, name) if out else ():
        console.print(f"saved {saved}", markup=False, highlight=False, soft_wrap=True)
