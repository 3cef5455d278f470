"""Classifiers by name, from torchvision and timm, with official weights, one's own, or none."""

from __future__ import annotations

import functools
import inspect
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from partswap import _vision
from partswap.errors import FileFormatError, PartswapError, SettingError, UnknownNameError, suggest

LIBRARIES = ("torchvision", "timm")
# How training frameworks wrap the state dict in a checkpoint, and prefix its keys.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "state_dict_ema", "model_ema")
_PREFIXES = ("module.", "_orig_mod.", "model.")


def load_model(name: str, *, weights: str | Path | None = None, classes: int | None = None) -> nn.Module:
    """Return a classifier by name, in eval mode.

    Parameters
    ----------
    name : str
        ``"torchvision:resnet50"``, ``"timm:vit_small_patch16_224"``, or a bare name, which is looked up in
        torchvision first and then in timm.
    weights : str or Path, optional
        None for random weights (the model then knows nothing: good for tests only), ``"default"`` for the
        official pretrained ones (downloaded by torchvision or timm), or a file: ``.safetensors``, ``.pt``,
        ``.pth``.
    classes : int, optional
        Number of classes; by default that of the file, else that of the official weights.

    Examples
    --------
    >>> model = load_model("timm:vit_small_patch16_224", weights="default")
    >>> model = load_model("vgg16", weights="vgg16_cub.pth", classes=200)
    """
    library, architecture = _find(name)
    if classes is not None and classes < 2:
        raise SettingError(f"classes is {classes}.", "A classifier has at least two classes.")
    official = weights == "default"
    state = None if weights is None or official else read_weights(weights)
    if official and library == "torchvision" and classes is not None:
        raise SettingError(
            f"the official weights of {name!r} have their own number of classes, and classes is {classes}.",
            "Leave classes out, or pass a file as weights.",
        )
    try:
        model = _build(library, architecture, official, classes)
    except (OSError, RuntimeError) as error:
        if not official:
            raise
        raise PartswapError(
            f"the official weights of {name!r} could not be fetched ({type(error).__name__}: {error}).",
            'Without a network, pass a local file: weights="path/to/weights.safetensors" (or .pt, .pth).',
        ) from error
    if state is not None:
        if classes is None:
            model = _with_classes_of(state, model, library, architecture)
        _load(model, state, str(weights))
    return model.eval()


def model_names(library: str) -> list[str]:
    """Return the classifiers that ``"torchvision"`` or ``"timm"`` has."""
    if library == "timm":
        return list(_vision.timm().list_models())
    models = _vision.torchvision().models
    return list(models.list_models(module=models))


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the state dict of a ``.safetensors``, ``.pt`` or ``.pth`` file, unwrapped."""
    path = Path(path)
    if not path.is_file():
        raise FileFormatError(f"there is no weights file {str(path)!r}.", 'Check the path, or use "default".')
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except (
        pickle.UnpicklingError,
        zipfile.BadZipFile,
        RuntimeError,
        ValueError,
        EOFError,
        KeyError,
    ) as error:
        raise FileFormatError(
            f"{path.name} cannot be read as weights ({str(error).strip().splitlines()[0][:200]}).",
            "Save a plain state dict: torch.save(model.state_dict(), path).",
        ) from error
    except Exception as error:
        if type(error).__module__.startswith("safetensors"):
            raise FileFormatError(f"{path.name} is no safetensors file ({error}).", "Save it again.") from error
        raise
    return _unwrapped(state, path.name)


def _unwrapped(state: Any, name: str) -> dict[str, Tensor]:
    for wrapper in _WRAPPERS:
        if isinstance(state, Mapping) and isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    if not isinstance(state, Mapping) or not state or not all(isinstance(v, Tensor) for v in state.values()):
        raise FileFormatError(f"{name} holds no state dict.", "Save one: torch.save(model.state_dict(), path).")
    found: dict[str, Tensor] = dict(state)
    for prefix in _PREFIXES:
        if all(key.startswith(prefix) for key in found):
            found = {key.removeprefix(prefix): value for key, value in found.items()}
    return found


def _find(name: str) -> tuple[str, str]:
    library, colon, architecture = name.partition(":")
    if colon and library not in LIBRARIES:
        raise UnknownNameError(f"there is no library {library!r} of models.", f"Known: {', '.join(LIBRARIES)}.")
    libraries = (library,) if colon else LIBRARIES
    architecture = architecture if colon else name
    for each in libraries:
        # timm names may carry a tag of the weights: "vit_small_patch14_dinov2.lvd142m"
        if architecture.partition(".")[0] in _names(each):
            return each, architecture
    known = sorted({known for each in libraries for known in _names(each)})
    raise UnknownNameError(
        f"there is no model called {name!r}.",
        f"{suggest(architecture, known)} partswap.models.zoo.model_names('timm') lists them.".strip(),
    )


@functools.cache
def _names(library: str) -> frozenset[str]:
    return frozenset(model_names(library))


def _build(library: str, architecture: str, official: bool, classes: int | None) -> nn.Module:
    if library == "timm":
        extra = {} if classes is None else {"num_classes": classes}
        model: nn.Module = _vision.timm().create_model(architecture, pretrained=official, **extra)
        return model
    models = _vision.torchvision().models
    options: dict[str, Any] = {} if classes is None else {"num_classes": classes}
    if official:
        options["weights"] = "DEFAULT"
    elif "init_weights" in inspect.signature(models.get_model_builder(architecture)).parameters:
        options["init_weights"] = True  # says so, or GoogLeNet and Inception warn about it
    model = models.get_model(architecture, **options)
    return model


def _with_classes_of(state: dict[str, Tensor], model: nn.Module, library: str, architecture: str) -> nn.Module:
    """Build the model again with the file's number of classes, if only the last layer differs."""
    own = model.state_dict()
    differ = [k for k in own if k in state and own[k].shape != state[k].shape]
    sizes = {len(state[key]) for key in differ if own[key].ndim and state[key].ndim}
    if len(sizes) != 1 or any(own[key].shape[1:] != state[key].shape[1:] for key in differ):
        return model
    return _build(library, architecture, False, sizes.pop())


def _load(model: nn.Module, state: dict[str, Tensor], source: str) -> None:
    own = model.state_dict()
    # A counter that PyTorch versions before 0.4 did not have; nothing depends on it in eval mode.
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    unknown = [key for key in state if key not in own]
    shapes = [
        f"{key} is {tuple(state[key].shape)} in the file and {tuple(own[key].shape)} in the model"
        for key in own
        if key in state and own[key].shape != state[key].shape
    ]
    if not (missing or unknown or shapes):
        model.load_state_dict(state, strict=False)
        return
    problems = [f"missing: {', '.join(missing[:3])}"] if missing else []
    problems += [f"not in the model: {', '.join(unknown[:3])}"] if unknown else []
    problems += shapes[:3]
    fix = "Name the architecture the weights were trained with."
    if shapes and not missing and not unknown:
        fix = "Pass classes=, the number of classes the weights were trained with."
    raise FileFormatError(f"{source} does not fit {type(model).__name__} ({'; '.join(problems)}).", fix)
