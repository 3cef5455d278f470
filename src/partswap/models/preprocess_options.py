"""The preprocessing of a model as flags and files of runs say it, on top of what the model itself says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from partswap.errors import FileFormatError, SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.inputs.transforms import CustomPreprocess
from partswap.models.entrypoint import load_attribute
from partswap.models.huggingface import HuggingFaceClassifier, read_processor
from partswap.models.model_name import split_function
from partswap.models.preprocessing import as_preprocess, preprocess_for

IMAGENET = Preprocess(224, 256)


@dataclass(frozen=True)
class PreprocessOptions:
    """What is said of a preprocessing; what is None is as the model says it, or assumed.

    Attributes
    ----------
    preprocess : str, optional
        "imagenet", "0-1" (pixels of 0 to 1), or a file (see `of`).
    size : str or int, optional
        The side, or ``HEIGHTxWIDTH``.
    resize : int, optional
        The short side before the crop; by default there is none.
    mean, std : str or float, optional
        Numbers with commas, one per channel, or one for all.
    """

    preprocess: str | None = None
    size: str | int | None = None
    resize: int | None = None
    mean: str | float | None = None
    std: str | float | None = None

    def __post_init__(self) -> None:
        if self.resize is not None and self.resize < 1:
            raise SettingError(f"resize is {self.resize}.", "Use 1 or more.")
        for name in ("mean", "std"):  # before the model is opened
            if getattr(self, name) is not None:
                _numbers(name, str(getattr(self, name)))

    def of(self, model: nn.Module, default: Preprocess | None = None) -> Preprocess:
        """Return the preprocessing of a model; `usual` is what is known of it, by default what the model says.

        A file is ``preprocessor_config.json`` of Hugging Face, JSON with the fields of a `Preprocess` or of timm's
        configuration, or ``file.py:name``: a transform, or a function that takes nothing and returns one.
        """
        base = self._base(model, default)
        changes: dict[str, Any] = {}
        if self.size is not None:
            changes |= {"size": _sides(str(self.size)), "resize": None}
        if self.resize is not None:
            changes["resize"] = self.resize
        for name in ("mean", "std"):
            if getattr(self, name) is not None:
                changes[name] = _numbers(name, str(getattr(self, name)))
        longest = max([base.channels, *(len(changes[name]) for name in ("mean", "std") if name in changes)])
        for name in ("mean", "std"):  # one number is for all channels
            values = changes.get(name, getattr(base, name))
            changes[name] = values * longest if len(values) == 1 else values
        if isinstance(base, CustomPreprocess):
            if self == PreprocessOptions(self.preprocess):
                return base
            raise SettingError(
                f"the images are prepared by {base.label}, whose size, mean and std are its own.",
                "Say all of it: --preprocess imagenet, 0-1 or a file, and --size, --mean, --std.",
            )
        stated = self.preprocess is not None or self.mean is not None
        return replace(base, **changes, assumed="" if stated else base.assumed)

    def _base(self, model: nn.Module, default: Preprocess | None) -> Preprocess:
        """Return what sizes and numbers are changes of."""
        if self.preprocess == "imagenet":
            return IMAGENET
        if self.preprocess not in (None, "0-1"):
            return as_preprocess(_read(str(self.preprocess)), model)
        unprepared = isinstance(model, HuggingFaceClassifier) and model.unprepared
        if default is None and unprepared and self != PreprocessOptions():
            default = replace(IMAGENET, assumed="as for ImageNet")
        base = preprocess_for(model) if default is None else default
        if self.preprocess is None:
            return base
        channels = base.channels
        return replace(base.declared(), mean=(0.0,) * channels, std=(1.0,) * channels)


def _sides(text: str) -> tuple[int, int]:
    sides = [side for side in text.lower().split("x") if side.isdecimal() and int(side)]
    if len(sides) != text.lower().count("x") + 1 or len(sides) > 2:
        raise SettingError(f"--size is {text!r}.", "Give HEIGHTxWIDTH or one number, for example 224.")
    return int(sides[0]), int(sides[-1])


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.replace(",", " ").split())
    except ValueError as error:
        fix = "Give one number, or one per channel with commas: 0.5,0.5,0.5."
        raise SettingError(f"--{name} is {text!r}.", fix) from error


def _read(text: str) -> Any:
    """Return what `as_preprocess` takes from what names it."""
    function = split_function(text)
    if function:
        return load_attribute(*function)
    path = Path(text)
    if path.name == "preprocessor_config.json" and path.is_file():
        return read_processor(str(path.parent))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(
            f"--preprocess is {text!r}, and there is no such file.",
            "Use imagenet, 0-1, a JSON file, or file.py:name of a transform.",
        ) from error
    except ValueError as error:
        raise FileFormatError(f"{path} is no JSON ({error}).", "Give size, mean and std by name.") from error
    if not isinstance(content, Mapping):
        raise FileFormatError(f"{path} holds a {type(content).__name__}.", "Give size, mean and std by name.")
    content = content.get("preprocess", content)  # a model.json has more than that
    names = {f.name for f in fields(Preprocess)}
    return Preprocess.of_record(content) if "function" in content or set(content) <= names else content
