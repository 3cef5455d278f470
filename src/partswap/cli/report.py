"""``partswap report``: runs as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import check_exists, checked, output_page, say
from partswap.utils.progress import bars


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that partswap run wrote.")],
    out: Annotated[
        Path, output_page("A folder (pictures as files, page index.html), or one file that ends in .html.")
    ] = Path("out/report.html"),
    words: Annotated[
        Path | None,
        checked("Say explanations in words, too: the folder that partswap train words made.", check_exists),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page; names data and model by default.")] = "",
) -> None:
    """Write a page about runs: the model's mistakes, nearest classes, all explanations to filter and sort, metrics."""
    from partswap.apps.report import collect_runs, write_report

    page = write_report(collect_runs(runs, title=title, words=words, track=bars), out)
    say(f"report: {page}")
