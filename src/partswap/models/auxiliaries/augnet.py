"""AugNet (Chen 2021): a ResNet-50 trained without labels, in the PyPI package imgsim with its weights."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata

from partswap.errors import FileFormatError, MissingDependencyError
from partswap.models.auxiliaries._resnet50 import resnet50_auxiliary
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.published import PublishedWeights

PUBLISHED = PublishedWeights(None, prefix="pre.", heads=("fc.",))
# The side imgsim brings images to. It takes OpenCV's BGR and turns it into RGB, which images here are already.
SIZE = 350


@AUXILIARIES.register("augnet")
def augnet(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return AugNet's ResNet-50; its grid has 11 x 11 cells."""
    return resnet50_auxiliary("augnet", PUBLISHED, replace(choice, weights=choice.weights or _installed()), size=SIZE)


def _installed() -> str:
    """Return imgsim's weights; the package itself is never imported (it needs OpenCV and runs its own loading)."""
    try:
        files = metadata.files("imgsim") or []
    except metadata.PackageNotFoundError as error:
        raise MissingDependencyError(
            "the auxiliary augnet needs the weights in the package imgsim, which is not installed.",
            'Run: pip install "partswap[augnet]"; or pass its model.pth as weights.',
        ) from error
    for file in files:
        if file.name == "model.pth":
            return str(file.locate())
    raise FileFormatError("the installed imgsim has no model.pth.", "Install imgsim 0.1.2.")
