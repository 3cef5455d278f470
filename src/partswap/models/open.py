"""A classifier from what a user typed: shipped, a trained folder, of Hugging Face, one's own, or a name of the zoo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from partswap import aviary
from partswap.errors import SettingError, UnknownNameError
from partswap.inputs.preprocess import Preprocess
from partswap.models import shipped
from partswap.models.checkpoints import Classifier, load_classifier
from partswap.models.entrypoint import is_own
from partswap.models.names import class_names, placeholder_names
from partswap.models.outputs import outputs_of
from partswap.models.precision import device_of, dtype_of
from partswap.models.preprocessing import as_preprocess
from partswap.models.stated import Stated
from partswap.models.zoo import LIBRARIES, find_architecture, load_model


def open_classifier(
    model: str, weights: str | Path | None = None, names: Any = None, preprocess: Any = None
) -> Classifier:
    """Return a classifier by what names it.

    Parameters
    ----------
    model : str
        ``aviary:vgg``, the folder of a trained one, ``hf:FOLDER``, ``file.py:function``, ``module:function``, or a name
        from the zoo.
    weights : str or Path, optional
        A file, or ``"default"`` for official ones; a name from the zoo needs them.
    names : list of str, mapping or path, optional
        Names of its classes, if it does not say them itself (see `partswap.models.names.class_names`).
    preprocess : Preprocess, Stated or what `as_preprocess` takes, optional
        How its images are prepared, if it does not say that itself.
    """
    if not model.strip():
        raise UnknownNameError(
            "the name of the model is empty.", "Name one, for example resnet50, hf:FOLDER, aviary:vgg."
        )
    shipped_one = model.startswith("aviary:")
    if weights is not None and (shipped_one or Path(model).is_dir()):
        raise SettingError(f"{model} has weights of its own.", "Leave {weights} out, or name an architecture.")
    if shipped_one:
        found = Classifier(
            shipped.load(model.removeprefix("aviary:")),
            model,
            [s.name for s in aviary.all_species()],
            shipped.PREPROCESS,
        )
    elif Path(model).is_dir():
        if (Path(model) / "config.json").exists() and not (Path(model) / "model.json").exists():
            return open_classifier(f"hf:{model}", names=names, preprocess=preprocess)
        found = load_classifier(model)
    else:
        if weights is None and is_architecture(model):  # a network that knows nothing is for tests of the library only
            find_architecture(model)
            raise SettingError(
                f"{model} has no weights.",
                "Give {weights}, a file or default for official ones; or name the folder of a trained "
                "classifier, hf:FOLDER, or file.py:function.",
            )
        return describe(load_model(model, weights=weights), model, names, preprocess)
    named = None if names is None else class_names(names, found.model, len(found.classes))
    prepare = _prepared_as(preprocess, found.model, found.preprocess)
    return replace(found, classes=named or found.classes, preprocess=prepare)


def _prepared_as(preprocess: Any, model: nn.Module, usual: Preprocess | None = None) -> Preprocess:
    """Return how a model's images are prepared, as a user says it; `usual` is what is known, if the model is silent."""
    if isinstance(preprocess, Stated):
        return preprocess.of(model, usual)
    return usual if preprocess is None and usual is not None else as_preprocess(preprocess, model)


def describe(model: nn.Module, architecture: str, names: Any = None, preprocess: Any = None) -> Classifier:
    """Return a model with what it says of itself: how it wants its images, and what its classes are called."""
    preprocess = _prepared_as(preprocess, model)
    rows = outputs_of(model, preprocess.probe().to(device_of(model), dtype_of(model)))
    if rows is None:  # the cut says what is wrong with it
        return Classifier(model, architecture, (), preprocess)
    classes = max(int(rows.shape[1]), 2)  # one logit speaks for two classes
    return Classifier(model, architecture, class_names(names, model, classes) or placeholder_names(classes), preprocess)


def start_of(start: str) -> tuple[str | None, str | Mapping[str, Tensor]]:
    """Return what a training may start from: the architecture, if `start` says it, and a file or the weights.

    `start` is a file, or names a model: a trained folder, ``hf:FOLDER``, ``file.py:function``, and with official
    weights ``timm:NAME`` or ``torchvision:NAME``.
    """
    library, colon, _ = start.partition(":")
    if Path(start).is_file() or not (Path(start).is_dir() or colon):
        return None, start
    found = open_classifier(start, "default" if library in LIBRARIES else None)
    return found.architecture, found.model.state_dict()


def check_start(start: str) -> None:
    """Raise an error, with nothing opened, if there is nothing of this name that a training may start from."""
    library, colon, _ = start.partition(":")
    if library in LIBRARIES:
        find_architecture(start)
    elif not colon and not Path(start).exists():
        raise SettingError(f"there is no file or folder {start} to start from.", "Check the path.")


def check_architecture(name: str) -> None:
    """Raise an error, with nothing opened, if the zoo has no architecture of this name; one's own are not looked at."""
    if is_architecture(name):
        find_architecture(name)


def anchored(model: str) -> str:
    """Return the name of a model with the absolute path of a file or folder in it."""
    if model.startswith("hf:"):
        folder = Path(model.removeprefix("hf:"))
        return f"hf:{folder.absolute()}" if folder.is_dir() else model
    file, _, function = model.rpartition(":")
    return f"{Path(file).absolute()}:{function}" if file.endswith(".py") else model


def is_architecture(model: str) -> bool:
    """Tell whether a name stands for an architecture of the zoo, which has no weights of its own."""
    if model.startswith(("hf:", "aviary:")) or Path(model).is_dir():
        return False
    return not is_own(model) or model.partition(":")[0] in LIBRARIES
