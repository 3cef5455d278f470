"""A trained network in a folder: ``model.safetensors`` for the weights, ``model.json`` for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from partswap._version import __version__
from partswap.errors import FileFormatError, PartswapError
from partswap.images import Preprocess
from partswap.models.zoo import load_model
from partswap.store import read_json, write_json


@dataclass(frozen=True)
class Classifier:
    """A classifier with what is needed to use it.

    Attributes
    ----------
    model : nn.Module
        In eval mode.
    architecture : str
        Its name in the zoo.
    classes : sequence of str
        Names, in the order of the logits.
    preprocess : Preprocess
        What it wants its images to be like.
    record : dict
        How it was trained and how good it is.
    """

    model: nn.Module
    architecture: str
    classes: Sequence[str]
    preprocess: Preprocess
    record: dict[str, Any] = field(default_factory=dict)


def save_classifier(classifier: Classifier, folder: Path) -> Path:
    """Write a classifier; returns the folder."""
    write_network(
        folder,
        classifier.model,
        kind="classifier",
        architecture=classifier.architecture,
        classes=list(classifier.classes),
        preprocess=asdict(classifier.preprocess),
        record=classifier.record,
    )
    return folder


def load_classifier(folder: str | Path) -> Classifier:
    """Read a classifier that ``partswap train classifier`` saved."""
    folder = Path(folder)
    about = read_about(folder, "classifier")
    model = load_model(about["architecture"], weights=folder / "model.safetensors", classes=len(about["classes"]))
    return Classifier(model, about["architecture"], about["classes"], preprocess_from(about), about["record"])


def write_network(folder: Path, model: nn.Module, **about: Any) -> None:
    """Write weights first and ``model.json`` last, so that a folder with one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / ".model.safetensors.tmp"
    save_file({k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}, temporary)
    temporary.replace(folder / "model.safetensors")
    write_json(folder / "model.json", {"partswap": __version__, **about})


def read_about(folder: Path, kind: str) -> dict[str, Any]:
    """Return ``model.json`` of a folder after checking that it is of a kind."""
    path = folder / "model.json"
    if not path.exists():
        unfinished = (folder / "training.json").exists()
        raise PartswapError(
            f"{folder} holds no trained network{': its training is not finished' if unfinished else ''}.",
            "Run the same partswap train command again to go on." if unfinished else "Give the folder it was saved to.",
        )
    about = read_json(path)
    if not isinstance(about, dict) or about.get("kind") != kind:
        raise FileFormatError(f"{path} is not about a {kind}.", f"Give the folder of a {kind}.")
    return about


def preprocess_from(about: dict[str, Any]) -> Preprocess:
    """Return the preprocessing that a ``model.json`` tells."""
    told = about["preprocess"]
    return Preprocess(told["size"], told["resize"], tuple(told["mean"]), tuple(told["std"]))
