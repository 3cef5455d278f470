"""``partswap classes``: what a model can say."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partswap.cli.options import MODEL_HELP, Classes, Weights, say, with_preparation


@with_preparation
def classes(
    stated: Any,
    model: Annotated[str, typer.Argument(help=MODEL_HELP)],
    weights: Weights = None,
    names: Classes = None,
    find: Annotated[str | None, typer.Option(help="Only names that hold this text.")] = None,
) -> None:
    """List the classes of a model: number and name, as --target takes them."""
    from partswap.models.open import describe, is_architecture, open_classifier
    from partswap.models.zoo import load_model
    from partswap.utils.progress import bars, step

    bare = weights is None and is_architecture(model)
    with step(bars, f"opening {model}"):
        how = names, stated
        classifier = describe(load_model(model), model, *how) if bare else open_classifier(model, weights, *how)
    wide = len(str(len(classifier.classes)))
    for number, name in enumerate(classifier.classes):
        if find is None or find.lower() in name.lower():
            say(f"{number:>{wide}}  {name}")
