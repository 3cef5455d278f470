"""A trained network in a folder: ``model.safetensors`` for the weights, ``model.json`` for everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from partswap._version import __version__
from partswap.errors import FileFormatError, PartswapError
from partswap.inputs.preprocess import Preprocess
from partswap.models.preprocessing import recorded_preprocess
from partswap.models.weights import load_strictly, read_weights, write_tensors
from partswap.models.zoo import load_model
from partswap.utils.files import read_json, write_json


@dataclass(frozen=True)
class Trained(ABC):
    """A trained network with what is needed to use it; ``model.json`` holds every field but the network."""

    kind: ClassVar[str]  #: what it is, for files and messages
    model: nn.Module  #: in eval mode
    architecture: str  #: its name in the zoo, or that of its backbone
    record: dict[str, Any] = field(default_factory=dict, kw_only=True)  #: how it was trained and how good it is

    @staticmethod
    @abstractmethod
    def build(about: Mapping[str, Any]) -> nn.Module:
        """Return the untrained network that a ``model.json`` tells of."""

    def stored(self) -> Mapping[str, Tensor]:
        """Return what ``model.safetensors`` holds."""
        return self.model.state_dict()

    @staticmethod
    def restored(model: nn.Module, state: Mapping[str, Tensor], path: str) -> nn.Module:
        """Return the network with what `stored` gave put in; `path` is what was read, for messages."""
        load_strictly(model, state, path, fix="It is not what model.json tells of: train it again.")
        return model


@dataclass(frozen=True)
class Classifier(Trained):
    """A classifier with what is needed to use it."""

    kind = "classifier"
    classes: Sequence[str]  #: names, in the order of the logits
    preprocess: Preprocess  #: what it wants its images to be like

    @staticmethod
    def build(about: Mapping[str, Any]) -> nn.Module:
        """Return the untrained network that a ``model.json`` tells of."""
        return load_model(about["architecture"], classes=len(about["classes"]))


T = TypeVar("T", bound=Trained)


def save_trained(trained: Trained, folder: Path) -> Path:
    """Write weights first and ``model.json`` last, so that a folder with one is whole; returns the folder."""
    goes_on: dict[str, Any] = {"place": "out", "resumes": True}
    write_tensors(folder / "model.safetensors", {k: v.detach().cpu() for k, v in trained.stored().items()}, **goes_on)
    values = {f.name: getattr(trained, f.name) for f in fields(trained) if f.name != "model"}
    about = {name: value.record() if isinstance(value, Preprocess) else value for name, value in values.items()}
    write_json(folder / "model.json", {"partswap": __version__, "kind": trained.kind, **about}, **goes_on)
    return folder


def read_about(kind: type[Trained], folder: Path) -> dict[str, Any]:
    """Return what the ``model.json`` of a folder tells, after checking that it is of a kind."""
    path = folder / "model.json"
    if not path.exists():
        unfinished = (folder / "training.json").exists()
        raise PartswapError(
            f"{folder} holds no trained network{': its training is not finished' if unfinished else ''}.",
            "Run the same partswap train command again to go on." if unfinished else "Give the folder it was saved to.",
        )
    about = read_json(path)
    if not isinstance(about, dict) or about.get("kind") != kind.kind:
        raise FileFormatError(f"{path} is not about a {kind.kind}.", f"Give the folder of a {kind.kind}.")
    return about


def load_trained(kind: type[T], folder: str | Path, **changes: Any) -> T:
    """Read what `save_trained` wrote, after checking that it is of a kind; `changes` overrule ``model.json``."""
    folder = Path(folder)
    about = {**read_about(kind, folder), **changes}
    weights = folder / "model.safetensors"
    model = kind.restored(kind.build(about), read_weights(weights), str(weights))
    values = {f.name: about[f.name] for f in fields(kind) if f.name != "model"}
    return kind(**{**values, "model": model.eval(), "preprocess": recorded_preprocess(about["preprocess"], model)})


def load_classifier(folder: str | Path) -> Classifier:
    """Read a classifier that ``partswap train classifier`` saved."""
    return load_trained(Classifier, folder)
