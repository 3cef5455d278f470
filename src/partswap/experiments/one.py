"""Explain one image file: what ``partswap explain`` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from partswap import aviary
from partswap.counterfactual import Counterfactual
from partswap.errors import ImageError, NoDistractorsError, SettingError
from partswap.explainer import Explainer
from partswap.images import Preprocess
from partswap.models import shipped
from partswap.models.auxiliaries import Auxiliary, load_auxiliary
from partswap.models.zoo import load_model

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
    network, preprocess, names = _classifier(model, weights)
    helper: str | Auxiliary | None = auxiliary
    if auxiliary_weights is not None or auxiliary_layer is not None:
        if auxiliary is None:
            raise SettingError("weights or a layer of an auxiliary, and no auxiliary.", "Name it with --auxiliary.")
        helper = load_auxiliary(
            auxiliary,
            weights=auxiliary_weights,
            layer=auxiliary_layer,
            classifier=network,
            preprocess=preprocess,
        )
    explainer = Explainer(network, layer, auxiliary=helper, method=method, preprocess=preprocess, class_names=names)
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


def _classifier(model: str, weights: str | None) -> tuple[nn.Module, Preprocess | None, list[str] | None]:
    if model.startswith("aviary:"):
        names = [s.name for s in aviary.all_species()]
        return shipped.load(model.removeprefix("aviary:")), shipped.PREPROCESS, names
    return load_model(model, weights=weights), None, None
