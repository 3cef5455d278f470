"""Auxiliaries by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn

from partswap.cut.layer_extractor import LayerExtractor
from partswap.errors import FileFormatError, LayerError, SettingError, UnknownNameError, suggest
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries.base import AUXILIARIES, TAU_TOKENS, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.auxiliaries.trained import is_trained_auxiliary, load_trained_auxiliary
from partswap.models.multi_layer import feature_extractor
from partswap.models.open import is_architecture, open_classifier
from partswap.models.preprocessing import preprocess_for
from partswap.models.zoo import find_architecture, load_model, model_names


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
        A registered one (``AUXILIARIES.names()``), the folder of one that was trained, or any model by what names it:
        ``"timm:NAME"``, ``"torchvision:NAME"``, the bare name, a trained folder, ``"hf:FOLDER"``,
        ``"file.py:function"``. ``"NAME=WEIGHTS@LAYER"`` says all at once, as on the command line.
    weights : str or Path, optional
        A file; None or ``"default"`` for the official weights, downloaded once.
    layer : str, optional
        The layer whose output is compared; by default the last grid before the final pooling. Several side by side:
        ``"layer3+layer4.0"``.
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
    if not isinstance(name, str):
        raise SettingError(f"the auxiliary is a {type(name).__name__}.", "Give its name.")
    parsed = AuxiliaryChoice.parse(name)
    file = parsed.weights if weights is None else str(weights)
    choice = AuxiliaryChoice(parsed.name, None if file == "default" else file, layer or parsed.layer, tau)
    explained = None if classifier is None else ClassifierContext(classifier, preprocess or preprocess_for(classifier))
    return build_auxiliary(choice, explained)


def build_auxiliary(choice: AuxiliaryChoice, explained: ClassifierContext | None = None) -> Auxiliary:
    """Return an auxiliary as it was chosen; `explained` is the classifier, for auxiliaries that are made of it."""
    folder = Path(choice.name)
    if choice.name in AUXILIARIES:
        auxiliary = AUXILIARIES.get(choice.name)(choice, explained)
    elif folder.is_dir() and is_trained_auxiliary(folder):
        if choice.layer is not None:
            raise LayerError(f"{folder} was trained on its own layers.", "Leave the layer out, or train another one.")
        auxiliary = load_trained_auxiliary(folder, choice.weights)
    else:
        auxiliary = _of_model(choice.name, choice.weights, choice.layer)
    if choice.tau is None:
        return auxiliary
    if not choice.tau > 0:
        raise SettingError(f"tau is {choice.tau}.", "A temperature is above zero.")
    return replace(auxiliary, tau=choice.tau)


def check_auxiliary(text: str) -> AuxiliaryChoice:
    """Return what a text chooses after checking, with nothing opened, that there is such an auxiliary."""
    choice = AuxiliaryChoice.parse(text)
    if choice.name not in AUXILIARIES and is_architecture(choice.name):
        _check_known(choice.name)
    if choice.weights not in (None, "default") and not Path(str(choice.weights)).exists():
        raise FileFormatError(f"there is no file {choice.weights}.", "Check the path of the auxiliary's weights.")
    return choice


def _check_known(name: str) -> None:
    try:
        find_architecture(name)
    except UnknownNameError as error:
        if ":" in name:
            raise
        names = dict.fromkeys((*AUXILIARIES, *model_names("torchvision"), *model_names("timm")))
        choices = f"Known: {', '.join(AUXILIARIES)}, any model of torchvision or timm, and the folder of a trained one."
        raise UnknownNameError(
            f"there is no auxiliary called {name!r}.", f"{suggest(name, names)} {choices}".lstrip()
        ) from error


def _of_model(name: str, weights: str | None, layer: str | None) -> Auxiliary:
    """Return any network's features: of the zoo, a trained folder, of Hugging Face, one's own."""
    if not is_architecture(name):
        opened = open_classifier(name, weights)
        return _made(name, opened.model, opened.preprocess, layer)
    _check_known(name)
    # A file may lack the classifier, which an auxiliary never runs.
    model = load_model(name, weights="default") if weights is None else load_model(name, start=weights)
    return _made(name, model, preprocess_for(model), layer)


def _made(name: str, model: nn.Module, preprocess: Preprocess, layer: str | None) -> Auxiliary:
    trunk = feature_extractor(model, layer, size=preprocess.shape)
    tokens = isinstance(trunk, LayerExtractor) and trunk.layout.kind == "tokens"
    return Auxiliary(name, trunk, preprocess, tau=TAU_TOKENS if tokens else 0.1)
