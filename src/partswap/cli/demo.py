"""``partswap demo``: some birds, several methods, a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import checked, console, one_of, output_folder, say
from partswap.utils.progress import bars


def demo(
    out: Annotated[Path, output_folder("Folder for the report.")] = Path("out/demo"),
    model: Annotated[str, checked("Shipped classifier: vgg or resnet.", one_of("vgg", "resnet"))] = "vgg",
    queries: Annotated[int, typer.Option(min=1, help="How many birds to explain.")] = 40,
    distractors: Annotated[int, typer.Option(min=1, help="How many images to take regions from.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Which birds.")] = 0,
) -> None:
    """Explain some birds with several methods, print a table, write a report to look at."""
    from partswap.analysis.demo import results_table, run_demo
    from partswap.apps.report import collect_demo, write_report

    result = run_demo(model=model, queries=queries, distractors=distractors, seed=seed, track=bars)
    console.print(results_table(result.scores, title=result.title))
    report = write_report(collect_demo(result), out / "report.html")
    say(f"report: {report}")
