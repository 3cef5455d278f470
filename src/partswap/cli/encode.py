"""``partswap encode``: features ahead of time."""

from __future__ import annotations

from typing import Annotated

from partswap.cli.options import check_auxiliary_name, checked, open_context, say, with_config
from partswap.runs.config import RunConfig
from partswap.utils.options import AUXILIARY_HELP


@with_config("data", "model", "path", "options", "split", "weights", "classes", "layer", "precision", "device", "cache")
def encode(
    config: RunConfig,
    auxiliary: Annotated[list[str] | None, checked(f"{AUXILIARY_HELP} Repeat for more.", check_auxiliary_name)] = None,
) -> None:
    """Compute the features of a split ahead of time; whatever needs them later starts at once."""
    from partswap.models.auxiliaries import AuxiliaryChoice

    context = open_context(config)
    grids = context.encodings.grids
    for text in auxiliary or ():
        grids = context.with_auxiliary(None if text == "none" else AuxiliaryChoice.parse(text)).encodings.grids
    say(f"{len(grids)} images of {config.data} {config.split}, grid {context.explainer.cut.grid}")
