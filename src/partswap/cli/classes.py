"""``partswap classes``: what a model can say."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partswap.cli.options import MODEL_HELP, Classes, Weights, open_named, say, with_preparation
from partswap.utils.progress import bars, step


@with_preparation
def classes(
    stated: Any,
    model: Annotated[str, typer.Argument(help=MODEL_HELP)],
    weights: Weights = None,
    names: Classes = None,
    find: Annotated[str | None, typer.Option(help="Only names that hold this text.")] = None,
) -> None:
    """List the classes of a model: number and name, as --target takes them."""
    with step(bars, f"opening {model}"):
        classifier = open_named(model, weights, names, stated)
    wide = len(str(len(classifier.classes)))
    for number, name in enumerate(classifier.classes):
        if find is None or find.lower() in name.lower():
            say(f"{number:>{wide}}  {name}")
