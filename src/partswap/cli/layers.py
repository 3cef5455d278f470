"""``partswap layers``: where a model can be cut."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import console

HELP = "Folder of a trained classifier, aviary:vgg, aviary:resnet, or a torchvision or timm name."


def layers(model: Annotated[str, typer.Argument(help=HELP)]) -> None:
    """List where a model can be cut, with the grid each place gives."""
    from partswap.cut.layers import layers_table
    from partswap.models.open import open_classifier
    from partswap.models.zoo import load_model

    ready = model.startswith("aviary:") or Path(model).is_dir()
    console.print(layers_table(open_classifier(model).model if ready else load_model(model)))
