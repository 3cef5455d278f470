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
from partswap.models.model_name import LIBRARIES, ModelName
from partswap.models.names import class_names, placeholder_names
from partswap.models.outputs import outputs_of
from partswap.models.precision import device_of, dtype_of
from partswap.models.preprocess_options import PreprocessOptions
from partswap.models.preprocessing import as_preprocess
from partswap.models.zoo import find_architecture, load_model


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
    preprocess : Preprocess, PreprocessOptions or what `as_preprocess` takes, optional
        How its images are prepared, if it does not say that itself.
    """
    if not model.strip():
        raise UnknownNameError(
            "the name of the model is empty.", "Name one, for example resnet50, hf:FOLDER, aviary:vgg."
        )
    name = ModelName.parse(model)
    if weights is not None and name.kind in ("shipped", "folder"):
        raise SettingError(f"{model} has weights of its own.", "Leave {weights} out, or name an architecture.")
    if name.kind == "shipped":
        species = [s.name for s in aviary.all_species()]
        opened = Classifier(shipped.load(name.name), model, species, shipped.PREPROCESS)
    elif name.kind == "folder":
        if (Path(model) / "config.json").exists() and not (Path(model) / "model.json").exists():
            return open_classifier(f"hf:{model}", names=names, preprocess=preprocess)
        opened = load_classifier(model)
    else:
        # A network that knows nothing is for tests of the library only.
        if weights is None and name.kind == "architecture":
            find_architecture(model)
            raise SettingError(
                f"{model} has no weights.",
                "Give {weights}, a file or default for official ones; or name the folder of a trained "
                "classifier, hf:FOLDER, or file.py:function.",
            )
        return describe(load_model(model, weights=weights), model, names, preprocess)
    class_list = None if names is None else class_names(names, opened.model, len(opened.classes))
    prepare = _prepared_as(preprocess, opened.model, opened.preprocess)
    return replace(opened, classes=class_list or opened.classes, preprocess=prepare)


def _prepared_as(preprocess: Any, model: nn.Module, default: Preprocess | None = None) -> Preprocess:
    """Return how a model's images are prepared, as a user says it; `usual` is what is known, if the model is silent."""
    if isinstance(preprocess, PreprocessOptions):
        return preprocess.of(model, default)
    return default if preprocess is None and default is not None else as_preprocess(preprocess, model)


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
    name = ModelName.parse(start)
    bare = name.kind == "architecture" and not name.place
    if bare or Path(start).is_file():
        return None, start
    opened = open_classifier(start, "default" if name.kind == "architecture" and name.place in LIBRARIES else None)
    return opened.architecture, opened.model.state_dict()


def check_start(start: str) -> None:
    """Raise an error, with nothing opened, if there is nothing of this name that a training may start from."""
    name = ModelName.parse(start)
    if name.kind == "architecture" and name.place in LIBRARIES:
        find_architecture(start)
    elif name.kind == "architecture" and not name.place and not Path(start).exists():
        raise SettingError(f"there is no file or folder {start} to start from.", "Check the path.")


def check_architecture(name: str) -> None:
    """Raise an error, with nothing opened, if the zoo has no architecture of this name; one's own are not looked at."""
    if is_architecture(name):
        find_architecture(name)


def absolute_name(model: str) -> str:
    """Return the name of a model with the absolute path of a file or folder in it."""
    name = ModelName.parse(model, folders=False)
    return model if name.kind == "architecture" else name.located(_absolute)


def _absolute(place: str) -> str:
    return str(Path(place).absolute()) if Path(place).exists() else place


def is_architecture(model: str) -> bool:
    """Tell whether a name stands for an architecture of the zoo, which has no weights of its own."""
    return ModelName.parse(model).kind == "architecture"
