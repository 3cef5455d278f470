"""``partswap compare``: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import console, output_folder, say
from partswap.utils.progress import bars


def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a run.")],
    second: Annotated[Path, typer.Argument(help="Folder of another run on the same images.")],
    out: Annotated[Path | None, output_folder("Folder for the table and pictures of the differences.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Resamples for the intervals.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="For the resampling.")] = 0,
) -> None:
    """Compare the metrics of two runs, image by image, with confidence intervals."""
    from partswap.analysis.compare import compare_runs

    comparison = compare_runs(first, second, samples=samples, seed=seed, track=bars)
    console.print(comparison.table())
    for method, images in comparison.names().items():
        say(f"differ most ({method}): {', '.join(images) or 'none do'}")
    if out is not None:
        for saved in (*comparison.table().save(out, "compare"), *comparison.draw(out, bars)):
            say(f"saved {saved}")
