"""The parts detector as auxiliary: it was taught the parts, so it is an upper bound."""

from __future__ import annotations

from pathlib import Path

from partswap.errors import LayerError, SettingError
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary
from partswap.models.parts import load_detector


@AUXILIARIES.register("parts")
def parts(*, weights: str | Path | None = None, layer: str | None = None) -> Auxiliary:
    """Return the backbone of a detector that ``partswap train parts`` saved to the folder `weights`.

    `layer` may be "backbone" (the default) or "parts", its part logits.
    """
    if weights is None:
        raise SettingError(
            "the parts detector has no official weights.", "Train one (partswap train parts) and pass its folder."
        )
    if layer not in (None, "backbone", "parts"):
        raise LayerError(f"the parts detector has no layer {layer!r}.", "Use backbone or parts.")
    detector = load_detector(weights)
    model = detector.model if layer == "parts" else detector.model.backbone
    return Auxiliary("parts", model, detector.preprocess)
