"""Explain one image file: what ``partswap explain`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from partswap.counterfactual import Counterfactual
from partswap.errors import ImageError, NoDistractorsError, SettingError
from partswap.explainer import Explainer
from partswap.models.auxiliaries import AuxiliaryChoice
from partswap.models.open import open_classifier

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}


def explain_files(
    query: Path,
    distractors: Sequence[Path],
    *,
    model: str,
    weights: str | None = None,
    layer: str | None = None,
    auxiliary: str | None = None,
    auxiliary_weights: str | None = None,
    auxiliary_layer: str | None = None,
    method: str = "partswap",
    target: int | None = None,
    keep_misclassified: bool = False,
) -> Counterfactual:
    """Explain one image file with others (or all in a folder) as distractors."""
    classifier = open_classifier(model, weights)
    chosen = None if auxiliary is None else AuxiliaryChoice.parse(auxiliary)
    if chosen is not None:
        weights_of, layer_of = auxiliary_weights or chosen.weights, auxiliary_layer or chosen.layer
        chosen = replace(chosen, weights=weights_of, layer=layer_of)
    elif auxiliary_weights is not None or auxiliary_layer is not None:
        raise SettingError("weights or a layer of an auxiliary, and no auxiliary.", "Name it with --auxiliary.")
    explainer = Explainer(
        classifier.model, layer, auxiliary=chosen, method=method, preprocess=classifier.preprocess,
        class_names=list(classifier.classes),
    )  # fmt: skip
    return explainer.explain(query, find_images(distractors), target, keep_misclassified=keep_misclassified)


def find_images(places: Sequence[Path]) -> list[Path]:
    """Return the image files among `places`, looking into folders, in a stable order."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            found.extend(sorted(p for p in place.rglob("*") if p.suffix.lower() in SUFFIXES))
        elif place.exists():
            found.append(place)
        else:
            raise ImageError(f"there is no image or folder {place}.", "Check the path.")
    if not found:
        raise NoDistractorsError(
            f"no images in {', '.join(map(str, places))}.",
            f"Folders are searched for {', '.join(sorted(SUFFIXES))}.",
        )
    return found
