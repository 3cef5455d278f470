"""``partswap explain``: one image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import Layer, Model, Weights, say
from partswap.errors import SettingError
from partswap.options import AUXILIARY_HELP
from partswap.runs.config import METHOD_NAMES


def explain(
    query: Annotated[Path, typer.Argument(help="The image to explain.")],
    distractors: Annotated[list[Path], typer.Argument(help="Images of the other class, or folders of them.")],
    model: Model,
    weights: Weights = None,
    layer: Layer = None,
    auxiliary: Annotated[
        str | None, typer.Option(help=f"Who says which cells show the same part: {AUXILIARY_HELP}")
    ] = None,
    auxiliary_weights: Annotated[
        str | None, typer.Option(help="Path to its weights; the official ones are downloaded if not given.")
    ] = None,
    auxiliary_layer: Annotated[
        str | None, typer.Option(help="Its layer; the last before the pooling if not given.")
    ] = None,
    method: Annotated[str, typer.Option(help=f"Method: {METHOD_NAMES}.")] = "partswap",
    target: Annotated[
        int | None, typer.Option(help="Class the model should say; its second guess if not given.")
    ] = None,
    keep_misclassified: Annotated[bool, typer.Option(help="Use distractors the model gets wrong, too.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write the counterfactual as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a figure (png, svg, pdf).")] = None,
) -> None:
    """Explain one image."""
    from partswap.explainer import Explainer
    from partswap.images import find_images
    from partswap.models.auxiliaries import AuxiliaryChoice
    from partswap.models.open import open_classifier

    classifier = open_classifier(model, weights)
    chosen = None
    if auxiliary is not None:
        told = AuxiliaryChoice.parse(auxiliary)
        chosen = replace(told, weights=auxiliary_weights or told.weights, layer=auxiliary_layer or told.layer)
    elif auxiliary_weights is not None or auxiliary_layer is not None:
        raise SettingError("weights or a layer of an auxiliary, and no auxiliary.", "Name it with --auxiliary.")
    explainer = Explainer(
        classifier.model, layer, auxiliary=chosen, method=method, preprocess=classifier.preprocess,
        class_names=list(classifier.classes),
    )  # fmt: skip
    cf = explainer.explain(query, find_images(distractors), target, keep_misclassified=keep_misclassified)
    say(str(cf))
    if save:
        say(f"saved {cf.save(save)}")
    if plot:
        cf.plot(plot)
        say(f"drew {plot}")
