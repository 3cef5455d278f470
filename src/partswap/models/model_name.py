"""What names a model: the one parser of MODEL, for commands, runs and Python alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: Where architectures come from, in the order in which a bare name is looked up.
LIBRARIES = ("torchvision", "timm", "partswap")


@dataclass(frozen=True)
class ModelName:
    """A model as a user names it.

    =============== ================================== =================== ============
    kind            text                               place               name
    =============== ================================== =================== ============
    "shipped"       ``aviary:vgg``                     aviary              vgg
    "huggingface"   ``hf:FOLDER``, ``hf:owner/name``   the folder or name
    "folder"        ``FOLDER``, if there is one        the folder
    "function"      ``file.py:build``, ``module:build`` the file or module build
    "architecture"  ``timm:resnet10t``, ``resnet10t``  the library or ""   resnet10t
    =============== ================================== =================== ============
    """

    text: str
    kind: Literal["shipped", "huggingface", "folder", "function", "architecture"]
    place: str
    name: str = ""

    @classmethod
    def parse(cls, text: str, *, folders: bool = True) -> ModelName:
        """Read what names a model; without `folders` the disk is not looked at, and nothing is a folder."""
        prefix, colon, rest = text.partition(":")
        if colon and prefix in ("hf", "aviary"):
            return cls(text, "huggingface", rest) if prefix == "hf" else cls(text, "shipped", prefix, rest)
        if folders and Path(text).is_dir():
            return cls(text, "folder", text)
        function = split_function(text)
        if function and prefix not in LIBRARIES:
            return cls(text, "function", *function)
        return cls(text, "architecture", prefix, rest) if colon else cls(text, "architecture", "", text)

    def located(self, locate: Callable[[str], str]) -> str:
        """Return the name with `locate` of the file or folder in it; a module and a library stay as they are."""
        if self.kind == "huggingface":
            return f"hf:{locate(self.place)}"
        if self.kind == "function" and self.place.endswith(".py"):
            return f"{locate(self.place)}:{self.name}"
        path = locate(self.text)
        return path if Path(path).is_dir() else self.text


def split_function(text: str) -> tuple[str, str] | None:
    """Return file or module and function of ``file.py:function`` or ``module:function``, None of anything else."""
    place, colon, function = text.rpartition(":")
    dotted = all(part.isidentifier() for part in place.split("."))
    return (place, function) if colon and function.isidentifier() and (place.endswith(".py") or dotted) else None
