"""``partswap check ...``: are explanations about the model, and do they hold still?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partswap.cli.options import (
    Threads,
    calls,
    check_method,
    checked,
    console,
    open_context,
    output_folder,
    say,
    use_threads,
    with_config,
)
from partswap.runs.config import METHOD_NAMES, RunConfig
from partswap.utils.progress import bars

if TYPE_CHECKING:
    from partswap.runs.context import RunContext
    from partswap.utils.tables import ResultTable

app = typer.Typer(help="Are explanations about the model, and do they hold still?", no_args_is_help=True)


MethodOption = Annotated[str, checked(f"Method to check: {METHOD_NAMES}.", check_method)]
Out = Annotated[Path | None, output_folder("Folder to write the table to, as Markdown and CSV.")]

with_bench = with_config(
    "data", "model", "path", "options", "split", "weights", "classes", "layer", "auxiliary", "precision", "device",
    "cache", "seed", queries=100, distractors=5,
)  # fmt: skip


@app.command()
@with_bench
def sanity(
    config: RunConfig,
    method: MethodOption = "partswap",
    which: Annotated[
        list[str] | None,
        checked("Weights to randomize: head, all; repeat the flag.", calls("partswap.analysis.sanity:check_depth")),
    ] = None,
    strict: Annotated[bool, typer.Option(help="End with exit code 1 if a check fails.")] = False,
    out: Out = None,
    threads: Threads = None,
) -> None:
    """Randomize the model's weights: explanations that do not change are not about the model.

    A check passes if fewer cells stay the same than half-way between what chance gives and all of them.
    """
    from partswap.analysis.sanity import DEPTHS, check_sanity, sanity_table, sanity_verdict

    use_threads(threads)
    context = open_context(config)
    rows = check_sanity(context, method=method, which=which or DEPTHS, queries=config.queries,
                        distractors=config.distractors, seed=config.seed, track=bars)  # fmt: skip
    _finish(sanity_table(rows, _note(context, method)), out, "sanity")
    for row in rows:
        say(row.verdict())
    say(sanity_verdict(rows))
    if strict and not all(row.passes for row in rows):
        raise typer.Exit(1)


@app.command()
@with_bench
def stability(
    config: RunConfig,
    method: MethodOption = "partswap",
    pixels: Annotated[list[int] | None, typer.Option(min=1, help="Shifts to try; repeat the flag. Default 8.")] = None,
    out: Out = None,
    threads: Threads = None,
) -> None:
    """Shift the queries by some pixels: explanations should stay where they were."""
    from partswap.analysis.stability import check_stability, stability_table

    use_threads(threads)
    context = open_context(config)
    rows = [
        check_stability(context, method=method, pixels=count, queries=config.queries,
                        distractors=config.distractors, seed=config.seed, track=bars)
        for count in pixels or [8]
    ]  # fmt: skip
    _finish(stability_table(rows, _note(context, method)), out, "stability")


def _note(context: RunContext, method: str) -> str:
    auxiliary = context.auxiliary.name if context.auxiliary else "none"
    network = f"{context.classifier.architecture} cut at {context.explainer.cut.layer}"
    return f"Method {method}, {network}, auxiliary {auxiliary}. In brackets: 95 % intervals, bootstrap over queries."


def _finish(table: ResultTable, out: Path | None, name: str) -> None:
    console.print(table)
    for saved in table.save(out, name) if out else ():
        say(f"saved {saved}")
