"""What a model wants its images to be like: as far as the model itself says, or as a user says it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from partswap.cut.shadow_copy import can_run, input_channels, make_probe, shadow_copy
from partswap.errors import InputError, PartswapError, SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.inputs.transforms import CustomPreprocess
from partswap.models.huggingface import HuggingFaceClassifier, is_processor, preprocess_of_processor

#: Sides of images that networks are trained with, to find out which one takes.
SIZES = (32, 28, 64, 96, 48, 128, 160, 192, 224, 256, 299, 384, 448, 512)


def preprocess_for(model: nn.Module) -> Preprocess:
    """Return the preprocessing a model was trained with.

    timm models carry theirs, models of Hugging Face that of their folder, and any model may have an attribute
    `preprocess` (see `as_preprocess`). For others it is assumed, and says so: as for ImageNet (short side 256, center
    224), of other channels than three pixels of 0 to 1.
    """
    _check_no_step(model)
    attribute = getattr(model, "preprocess", None)  # a model may carry it; a method of that name is something else
    if attribute is not None and not inspect.ismethod(attribute):
        return as_preprocess(attribute, model)
    if isinstance(model, HuggingFaceClassifier):
        if model.unprepared:
            raise PartswapError(
                f"{model.unprepared} has no preprocessor_config.json, so how its images are prepared is unknown.",
                "Save the image processor there too, processor.save_pretrained(folder), or say it: {preprocess}.",
            )
        return replace(_of_size(getattr(model.config, "image_size", None)), assumed="mean and std as for ImageNet")
    config = getattr(model, "pretrained_cfg", None)
    if not isinstance(config, Mapping) or "mean" not in config:
        channels = input_channels(model)
        if channels != 3:
            return Preprocess(224, 256, (0.0,) * channels, (1.0,) * channels, assumed="pixels of 0 to 1")
        return Preprocess(224, 256, assumed="as for ImageNet")
    embed = getattr(model, "patch_embed", None)
    preprocess = of_timm(config, getattr(embed, "img_size", None))
    published, classes = config.get("num_classes"), getattr(model, "num_classes", None)
    if published and classes and published != classes:
        return replace(preprocess, assumed=f"as timm says of its weights for {published} classes, not {classes}")
    return preprocess


def assumption(preprocess: Preprocess) -> str:
    """Return what is assumed of images and where it comes from, in words; empty if the model or a user says it."""
    if not preprocess.assumed:
        return ""
    return (
        f"preprocessing is assumed, {preprocess.assumed}: {preprocess.described()}. If the model was trained "
        "otherwise, say how (preprocess=, or --preprocess, --size, --resize, --mean, --std)."
    )


def suggest_input_size(error: InputError, model: nn.Module, preprocess: Preprocess) -> InputError:
    """Return the error of a model that fails on what `preprocess` makes, with a size and channels that it takes."""
    shadow, device = shadow_copy(model), next((p.device for p in model.parameters()), None)
    shapes = ((p, make_probe(shadow, p.probe().to(device))) for p in _others(model, preprocess))
    taken = next((p for p, probe in shapes if can_run(shadow, probe)), None)
    if taken is None:
        return InputError(error.problem, "Say what it takes: {preprocess=Preprocess(...)|--size, --mean and --std}.")
    values, flags = str(taken.size), f"--size {taken.size}"
    if taken.channels != preprocess.channels:
        numbers = ",".join("0" * taken.channels), ",".join("1" * taken.channels)
        flags += f" --mean {numbers[0]} --std {numbers[1]}"
    if taken.channels != 3:
        values += f", mean={taken.mean}, std={taken.std}"
    size = f"{taken.size} x {taken.size}, {taken.channels} channel{'s' * (taken.channels > 1)}"
    fix = f"It takes images of {size}: say {{preprocess=Preprocess({values})|{flags}}}, and its mean and std."
    return InputError(error.problem, fix)


def _others(model: nn.Module, preprocess: Preprocess) -> Iterator[Preprocess]:
    """Yield what else a model may want, the likeliest first."""
    counts = dict.fromkeys([preprocess.channels, input_channels(model), 3, 1])
    for channels in counts:
        same = preprocess.mean, preprocess.std
        mean, std = same if channels == preprocess.channels else ((0.0,) * channels, (1.0,) * channels)
        for size in SIZES:
            yield Preprocess(size, None, mean, std)


def as_preprocess(given: Any, model: nn.Module) -> Preprocess:
    """Return the preprocessing that a user means.

    A `Preprocess`, a configuration of timm's (``timm.data.resolve_data_config``), an image processor of Hugging Face, a
    transform of torchvision, any function from a PIL image to a tensor, or None: what the model itself says.
    """
    if given is None:
        return preprocess_for(model)
    _check_no_step(model)
    if isinstance(given, Preprocess):
        return given
    if isinstance(given, Mapping):
        return of_timm(given)
    if is_processor(given):
        return preprocess_of_processor(given)
    if callable(given):
        return CustomPreprocess.of(given, channels=input_channels(model))
    raise SettingError(
        f"preprocess is a {type(given).__name__}.",
        "Give a Preprocess, a timm configuration, an image processor, or a function from a PIL image to a tensor.",
    )


def _check_no_step(model: nn.Module) -> None:
    """Raise an error if a transform became the last step of a Sequential by being assigned to it."""
    steps = list(model.named_children()) if isinstance(model, nn.Sequential) else []
    if len(steps) > 1 and steps[-1][0] == "preprocess":
        kind = type(steps[-1][1]).__name__
        raise SettingError(
            f"model.preprocess is a {kind}, a torch module, and the model a Sequential: it became its last step, which "
            "the logits go through.",
            "Assign a function (model.preprocess = lambda image: transform(image)), or leave the attribute out and "
            "pass preprocess=transform to Explainer.",
        )


def recorded_preprocess(record: Mapping[str, Any], model: nn.Module | None) -> Preprocess:
    """Return the preprocessing that a file tells of.

    A file cannot hold a function; the model's own is taken if it makes the same of images.
    """
    if "function" in record and model is not None:
        preprocess = preprocess_for(model)
        if preprocess.record().get("key") == record.get("key", ""):
            return preprocess
    return Preprocess.of_record(record)


def of_timm(config: Mapping[str, Any], size: tuple[int, int] | None = None) -> Preprocess:
    """Return what a configuration of timm's tells; `size` is the model's own, if it is another."""
    try:
        high, wide = size or config["input_size"][-2:]
        shape = (int(high), int(wide))
        mean, std = tuple(config["mean"]), tuple(config["std"])
    except (KeyError, TypeError, ValueError) as error:
        raise SettingError(
            f"the configuration {dict(config)} does not say input_size, mean and std.",
            "Give what timm.data.resolve_data_config(model=model) returns.",
        ) from error
    interpolation: Any = config.get("interpolation") or "bilinear"
    if interpolation == "random":
        interpolation = "bilinear"
    resize = int(min(shape) / float(config.get("crop_pct") or 1.0))
    fit = config.get("crop_mode") or "center"
    if fit not in ("center", "squash"):
        raise SettingError(
            f"the crop mode of the model is {fit!r}.",
            "Pass preprocess=timm.data.create_transform(**timm.data.resolve_data_config(model=model)).",
        )
    return Preprocess(shape, resize, mean, std, interpolation, "squash" if fit == "squash" else "crop")


def _of_size(size: Any) -> Preprocess:
    """Return ImageNet's preprocessing for a model that only tells its size."""
    if isinstance(size, list | tuple) and len(size) == 2:
        return Preprocess((int(size[0]), int(size[1])))
    return Preprocess(int(size)) if isinstance(size, int) else Preprocess(224, 256)
