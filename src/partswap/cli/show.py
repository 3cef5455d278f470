"""``partswap show``: a counterfactual that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import output_file, say


def show(
    path: Annotated[Path, typer.Argument(help="A counterfactual that was saved as JSON.")],
    plot: Annotated[
        Path | None, output_file("Draw it (png, svg, pdf, jpg or html) from the images it was made from.")
    ] = None,
    kind: Annotated[str, typer.Option(help="Kind of figure: edits, best, trace or sheet.")] = "edits",
) -> None:
    """Print a saved counterfactual, or draw it again."""
    from partswap.results.counterfactual import Counterfactual

    if plot is not None:
        from partswap.drawing.figures import check_format

        check_format(plot)
    cf = Counterfactual.load(path)
    say(str(cf))
    if plot is not None:
        cf.with_files(path.parent).plot(plot, kind=kind)
        say(f"drew {plot}")
