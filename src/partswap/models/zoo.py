"""Classifiers by name: torchvision's, timm's, of Hugging Face, one's own; with official weights, a file, or none."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from partswap import _vision
from partswap.errors import PartswapError, SettingError, UnknownNameError, suggest
from partswap.inputs.preprocess import Preprocess
from partswap.models import shipped
from partswap.models.entrypoint import UnknownLibraryError, call_entrypoint, check_no_file
from partswap.models.huggingface import load_folder
from partswap.models.model_name import LIBRARIES, ModelName
from partswap.models.weights import load_strictly, read_weights, start_from

#: How files of weights end.
WEIGHTS_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".onnx")


def load_model(
    name: str, *, weights: str | Path | None = None, classes: int | None = None, start: str | Path | None = None
) -> nn.Module:
    """Return a classifier by name, in eval mode.

    Parameters
    ----------
    name : str
        ``"torchvision:resnet50"``, ``"timm:vit_small_patch16_224"``, ``"partswap:resnet50_v1"`` (strides as in
        He et al. 2016 and Caffe's weights), or a bare name, which is looked up in this order. A tag of timm's
        weights says that it is timm's: ``"resnet50.a1_in1k"``. Also ``"hf:FOLDER"``, what ``save_pretrained`` of
        transformers wrote, ``"file.py:function"`` or ``"module:function"``, which returns a module of yours, and the
        small shipped ones, ``"aviary:vgg"`` and ``"aviary:resnet"``.
    weights : str or Path, optional
        None for random weights (the model then knows nothing: good for tests only), ``"default"`` for the
        official pretrained ones (downloaded by torchvision or timm), or a file: ``.safetensors``, ``.pt``,
        ``.pth``.
    classes : int, optional
        Number of classes; by default that of the file, else that of the official weights.
    start : str or Path, optional
        A file to train on from, instead of `weights`: what fits is loaded, and only the last layers may stay random
        (see `start_from`).

    Examples
    --------
    >>> model = load_model("timm:vit_small_patch16_224", weights="default")
    >>> model = load_model("vgg16", weights="vgg16_cub.pth", classes=200)
    >>> model = load_model("vgg16", start="vgg16_imagenet.pth", classes=200)  # to be trained
    """
    if not isinstance(name, str):
        raise SettingError(f"the model is a {type(name).__name__}.", "Give its name.")
    if classes is not None and classes < 2:
        raise SettingError(f"classes is {classes}.", "A classifier has at least two classes.")
    if weights is not None and start is not None:
        raise SettingError(
            f"weights is {str(weights)!r} and start is {str(start)!r}.",
            "Pass weights for a classifier that is ready, start for one that is to be trained.",
        )
    parsed = ModelName.parse(name, folders=False)
    build = _from_library if parsed.kind == "architecture" else _with_own_weights
    model = build(parsed, weights, classes)
    if start is not None:
        start_from(model, start)
    return model.eval()


def _from_library(model_name: ModelName, weights: str | Path | None, classes: int | None) -> nn.Module:
    """Return an architecture of the zoo with random weights, official ones, or those of a file."""
    name = model_name.text
    library, architecture = find_architecture(name)
    official = weights == "default"
    if official and library == "partswap":
        raise SettingError(f"there are no official weights of {name!r}.", "Pass a file as weights.")
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
        load_strictly(model, state, str(weights))
    return model


def _with_own_weights(name: ModelName, weights: str | Path | None, classes: int | None) -> nn.Module:
    """Return a model that brings its own weights, or takes those of a file."""
    model: Any
    if name.kind == "shipped":
        model = shipped.load(name.name)
        model.preprocess = shipped.PREPROCESS
    else:
        model = load_folder(name.place, classes) if name.kind == "huggingface" else _from_function(name, classes)
    if not isinstance(model, nn.Module):
        raise PartswapError(f"{name.text} returned a {type(model).__name__}.", "Let it return a torch.nn.Module.")
    if weights == "default":
        raise SettingError(f"{name.text} brings its own weights.", "Leave the weights out, or give a file.")
    if weights is not None:
        load_strictly(model, read_weights(weights), str(weights))
    return model


def _from_function(name: ModelName, classes: int | None) -> Any:
    """Return what a function returns; if it is in no module, what is meant may be a network of the zoo."""
    try:
        return call_entrypoint(name.place, name.name, classes)
    except UnknownLibraryError as error:
        function, names = name.name, _every_name()
        close = suggest(function, names) if function not in names else f"Did you mean {function!r}?"
        if function == "default":
            close = f"If you mean its official weights: name {name.place!r}, and default as {{weights}}."
        raise UnknownNameError(error.problem, f"{close} {error.fix}".strip()) from error


def model_names(library: str) -> list[str]:
    """Return the classifiers that ``"torchvision"``, ``"timm"`` or ``"partswap"`` has."""
    if library == "partswap":
        return ["resnet50_v1"]
    if library == "timm":
        return list(_vision.timm().list_models())
    models = _vision.torchvision().models
    return list(models.list_models(module=models))


def find_architecture(name: str) -> tuple[str, str]:
    """Return the library that has an architecture, and its name there; an unknown name is an error."""
    check_no_file(name)
    parsed = ModelName.parse(name, folders=False)
    library, architecture = parsed.place, parsed.name
    if library and library not in LIBRARIES:
        raise UnknownNameError(
            f"there is no library {library!r} of models.",
            f"Known: {', '.join((*LIBRARIES, 'hf', 'file.py:function'))}.",
        )
    libraries = (library,) if library else LIBRARIES
    # Names of timm, and only those, may carry a tag of the weights: "vit_small_patch14_dinov2.lvd142m".
    bare, _, tag = architecture.partition(".")
    for candidate in libraries:
        if (bare if candidate == "timm" else architecture) in _names(candidate):
            if candidate == "timm" and tag:
                _check_tag(name, architecture)
            return candidate, architecture
    _check_task(architecture)
    if "/" in name:
        hub = name.count("/") == 1 and not name.startswith((".", "/", "~"))
        raise UnknownNameError(
            f"there is no model called {name!r}, and no folder of that name.",
            f"Check the path; a model of the Hugging Face hub is hf:{name}." if hub else "Check the path.",
        )
    if Path(name).suffix in WEIGHTS_SUFFIXES:
        raise UnknownNameError(
            f"there is no model called {name!r}, and no file of that name.",
            "Name the architecture, and pass the file as {weights}.",
        )
    raise UnknownNameError(
        f"there is no model called {name!r}.",
        suggest(architecture, _every_name(libraries))
        or "Give a folder, hf:FOLDER, file.py:function, or one of partswap.models.zoo.model_names('timm').",
    )


def _check_task(architecture: str) -> None:
    """Raise an error if torchvision has a model of that name, for something else than classification."""
    models = _vision.torchvision().models
    if architecture in models.list_models():
        task = models.get_model_builder(architecture).__module__.split(".")[2]
        raise UnknownNameError(
            f"{architecture} of torchvision is a model for {task}, and partswap explains image classifiers.",
            "Name a classifier; of such a network, wrap what tells whole images apart in a module that returns logits "
            "(n, classes), and name it as file.py:function.",
        )


def _check_tag(name: str, architecture: str) -> None:
    timm = _vision.timm()
    try:
        timm.models.get_pretrained_cfg(architecture, allow_unregistered=False)
    except RuntimeError as error:
        tagged = timm.list_pretrained(f"{architecture.partition('.')[0]}.*")
        raise UnknownNameError(
            f"there are no weights called {name!r} ({str(error).rstrip('.')}).",
            suggest(architecture, tagged) or "timm.list_pretrained() lists those of timm.",
        ) from error


def _every_name(libraries: Sequence[str] = LIBRARIES) -> list[str]:
    """Return the names of all classifiers of some libraries; of all libraries, the shipped ones too."""
    shipped_names = ["aviary:resnet", "aviary:vgg"] if len(libraries) > 1 else []
    return [*shipped_names, *sorted({name for each in libraries for name in _names(each)})]


@functools.cache
def _names(library: str) -> frozenset[str]:
    return frozenset(model_names(library))


def _build(library: str, architecture: str, official: bool, classes: int | None) -> nn.Module:
    if library == "partswap":
        return _resnet50_v1(classes)
    options: dict[str, Any] = {} if classes is None else {"num_classes": classes}
    model: nn.Module
    if library == "timm":
        model = _vision.timm().create_model(architecture, pretrained=official, **options)
        return model
    models = _vision.torchvision().models
    if official:
        options["weights"] = models.get_model_weights(architecture).DEFAULT
    elif "init_weights" in inspect.signature(models.get_model_builder(architecture)).parameters:
        options["init_weights"] = True  # or GoogLeNet and Inception warn about it
    model = models.get_model(architecture, **options)
    if official:
        model.preprocess = published_preprocess(options["weights"])  # type: ignore[assignment]
    return model


def published_preprocess(weights: Any) -> Preprocess:
    """Return how images are prepared for official weights of torchvision."""
    transforms = weights.transforms()
    side, resize = (
        sizes[0] if isinstance(sizes, list) else sizes for sizes in (transforms.crop_size, transforms.resize_size)
    )
    return Preprocess(side, resize, tuple(transforms.mean), tuple(transforms.std), transforms.interpolation.value)


def _resnet50_v1(classes: int | None) -> nn.Module:
    """Return a ResNet-50 whose stride is in the 1x1 convolutions; torchvision moved it into the 3x3 ones."""
    model = _build("torchvision", "resnet50", False, classes)
    for stage in ("layer2", "layer3", "layer4"):
        block: Any = model.get_submodule(f"{stage}.0")
        block.conv1.stride, block.conv2.stride = (2, 2), (1, 1)
    return model


def _with_classes_of(state: dict[str, Tensor], model: nn.Module, library: str, architecture: str) -> nn.Module:
    """Build the model again with the file's number of classes, if only the last layer differs."""
    model_state = model.state_dict()
    differ = [k for k in model_state if k in state and model_state[k].shape != state[k].shape]
    sizes = {len(state[key]) for key in differ if model_state[key].ndim and state[key].ndim}
    if len(sizes) != 1 or any(model_state[key].shape[1:] != state[key].shape[1:] for key in differ):
        return model
    return _build(library, architecture, False, sizes.pop())
