"""Auxiliaries by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn

from partswap.cut.trunk import Trunk
from partswap.errors import SettingError, UnknownNameError, suggest
from partswap.images import Preprocess
from partswap.models.auxiliaries.base import AUXILIARIES, TAU_TOKENS, Auxiliary, AuxiliaryChoice, Explained
from partswap.models.preprocessing import preprocess_for
from partswap.models.zoo import load_model


def load_auxiliary(
    name: str,
    *,
    weights: str | Path | None = None,
    layer: str | None = None,
    tau: float | None = None,
    classifier: nn.Module | None = None,
    preprocess: Preprocess | None = None,
) -> Auxiliary:
    """Return an auxiliary by name.

    Parameters
    ----------
    name : str
        A registered one (``AUXILIARIES.names()``), or any model of torchvision or timm: ``"timm:NAME"``,
        ``"torchvision:NAME"``, or the bare name. ``"NAME=WEIGHTS@LAYER"`` says all at once, as on the command line.
    weights : str or Path, optional
        A file; None or ``"default"`` for the official weights, downloaded once.
    layer : str, optional
        The layer whose output is compared; by default the last grid before the final pooling.
    tau : float, optional
        The temperature; by default the one that suits the auxiliary.
    classifier : torch.nn.Module, optional
        The classifier that is explained; only the auxiliary ``"classifier"`` needs it.
    preprocess : Preprocess, optional
        How that classifier wants its images; by default what it says itself.

    Examples
    --------
    ``load_auxiliary("deepcluster")``, ``load_auxiliary("moco", weights="moco_v2_800ep_pretrain.pth.tar")``,
    ``load_auxiliary("timm:convnext_tiny", layer="stages.2")``.
    """
    told = AuxiliaryChoice.parse(name)
    file = told.weights if weights is None else str(weights)
    choice = AuxiliaryChoice(told.name, None if file == "default" else file, layer or told.layer, tau)
    explained = None if classifier is None else Explained(classifier, preprocess or preprocess_for(classifier))
    return build_auxiliary(choice, explained)


def build_auxiliary(choice: AuxiliaryChoice, explained: Explained | None = None) -> Auxiliary:
    """Return an auxiliary as it was chosen; `explained` is the classifier, for auxiliaries that are made of it."""
    if choice.name in AUXILIARIES:
        auxiliary = AUXILIARIES.get(choice.name)(choice, explained)
    else:
        auxiliary = _of_zoo(choice.name, choice.weights, choice.layer)
    if choice.tau is None:
        return auxiliary
    if not choice.tau > 0:
        raise SettingError(f"tau is {choice.tau}.", "A temperature is above zero.")
    return replace(auxiliary, tau=choice.tau)


def _of_zoo(name: str, weights: str | None, layer: str | None) -> Auxiliary:
    try:
        # A file may lack the classifier, which an auxiliary never runs.
        model = load_model(name, weights="default") if weights is None else load_model(name, start=weights)
    except UnknownNameError as error:
        if ":" in name:
            raise
        raise UnknownNameError(
            f"there is no auxiliary called {name!r}.",
            f"{suggest(name, AUXILIARIES) or error.fix} Known: {', '.join(AUXILIARIES)}, torchvision's and timm's.",
        ) from error
    preprocess = preprocess_for(model)
    trunk = Trunk(model, layer, size=preprocess.size)
    return Auxiliary(name, trunk, preprocess, tau=TAU_TOKENS if trunk.layout.kind == "tokens" else 0.1)
