"""The best auxiliary at hand: trained for these images, or self-supervised, or the classifier's own features."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module

from partswap.cut.layer_extractor import PLUS, default_auxiliary_layers
from partswap.errors import PartswapError, SettingError
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.auxiliaries.trained import find_auxiliary_for, load_trained_auxiliary
from partswap.models.published import PublishedWeights, local_file
from partswap.models.small import SmallResNet, SmallVGG

#: Trained without labels, best first.
SELF_SUPERVISED = ("dinov2_vits14", "dino_vits16", "dino_resnet50", "swav", "moco", "deepcluster")
#: Set to 1, weights that are not here may be downloaded without being asked for by name.
DOWNLOAD = "PARTSWAP_DOWNLOAD"
BETTER = "Better: one trained on your images (partswap train auxiliary), or name another."


@AUXILIARIES.register("auto")
def auto(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return the best auxiliary that is at hand, with a note that says which and what would be better."""
    if explained is None:
        raise SettingError(
            'the auxiliary "auto" needs the classifier that is explained.',
            'Use it in an Explainer, or call load_auxiliary("auto", classifier=model).',
        )
    if choice.weights is not None or choice.layer is not None:
        raise SettingError(f"{choice} names weights or a layer.", "auto finds its own: leave them out, or name one.")
    if isinstance(explained.model, SmallVGG | SmallResNet):
        return _noted("aviary", "trained on these birds, without labels", explained)
    folder = find_auxiliary_for(explained.data) if explained.data is not None else None
    if folder is not None:
        return replace(load_trained_auxiliary(folder), note=f"auxiliary: {folder}, trained on these images.")
    problem = ""
    for name in SELF_SUPERVISED:
        published: PublishedWeights = import_module(f"partswap.models.auxiliaries.{name}").PUBLISHED
        allowed = os.environ.get(DOWNLOAD) == "1" and not problem
        if local_file(published.url) is None and not allowed:
            continue
        try:
            return _noted(name, "a self-supervised network", explained, BETTER)
        except PartswapError as error:  # a broken file, or no network: the next will do, and it is said
            problem = f" ({name}: {error.problem})"
    layers = PLUS.join(default_auxiliary_layers(explained.model, explained.preprocess.shape, explained.layer))
    auxiliary = _noted(f"classifier@{layers}", f"the classifier's own features{problem}", explained, BETTER)
    return replace(auxiliary, name=f"classifier@{layers}")


def _noted(text: str, reason: str, explained: ClassifierContext, better: str = "") -> Auxiliary:
    choice = AuxiliaryChoice.parse(text)
    auxiliary = AUXILIARIES.get(choice.name)(choice, explained)
    return replace(auxiliary, note=f"auxiliary: {text}, {reason}. {better}".strip())
