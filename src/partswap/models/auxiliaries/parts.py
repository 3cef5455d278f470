"""The parts detector as auxiliary: it was taught the parts, so it is an upper bound."""

from __future__ import annotations

from partswap.errors import LayerError, SettingError
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.parts import load_detector


@AUXILIARIES.register("parts")
def parts(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return the backbone of a detector that ``partswap train parts`` saved to the folder given as weights.

    The layer may be "backbone" (the default) or "parts", its part logits.
    """
    if choice.weights is None:
        raise SettingError(
            "the parts detector has no official weights.", "Train one (partswap train parts) and pass its folder."
        )
    if choice.layer not in (None, "backbone", "parts"):
        raise LayerError(f"the parts detector has no layer {choice.layer!r}.", "Use backbone or parts.")
    detector = load_detector(choice.weights)
    model = detector.model if choice.layer == "parts" else detector.model.backbone
    return Auxiliary("parts", model, detector.preprocess)
