"""An auxiliary that learned the parts of some images (``partswap train auxiliary``), in a folder.

The folder holds what was learned, a few megabytes, and names the network below it with a digest of its weights: that
network is opened again from where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from partswap.cut.layer_extractor import PLUS, default_auxiliary_layers
from partswap.errors import FileFormatError, PartswapError, SettingError, ShapeError
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries.base import Auxiliary, AuxiliaryChoice
from partswap.models.checkpoints import Trained, load_trained, read_about
from partswap.models.fingerprint import weights_digest
from partswap.models.multi_layer import STATE, MultiLayerFeatures
from partswap.models.side_by_side import BESIDE, SideBySide, joined, layers_of
from partswap.utils.store import default_cache, read_json, write_json

#: Folder of the cache with notes on what was trained where.
NOTES = "auxiliaries"


@dataclass(frozen=True)
class TrainedAuxiliary(Trained):
    """What was learned, and the network it was learned on."""

    kind = "auxiliary"
    model: MultiLayerFeatures
    layers: Sequence[str]  #: of the network, which `architecture` names as `AuxiliaryChoice` writes it
    weights: str  #: digest of the network's weights
    preprocess: Preprocess  #: what the network wants its images to be like

    @staticmethod
    def build(about: Mapping[str, Any]) -> nn.Module:
        """Return the network below, up to the layers."""
        start = about["architecture"]
        blend = blend_of(open_source(_at_layers(start, about["layers"])))
        if weights_digest(blend.trunks) != about["weights"]:
            names = " or ".join(AuxiliaryChoice.parse(one).name for one in start.split(BESIDE))
            raise PartswapError(
                f"{names} has other weights than when the auxiliary was trained.",
                "Give those it was trained on: FOLDER=WEIGHTS; or train it again.",
            )
        recipe = about["record"]["recipe"]  # older ones do not say how they look
        return blend.looking(both_ways=recipe.get("both_ways", False), smoothing=recipe.get("smoothing", 0.0))

    def stored(self) -> dict[str, Tensor]:
        """Return what was learned; the network below has a file of its own."""
        return {name: getattr(self.model, name) for name in STATE}

    @staticmethod
    def restored(model: nn.Module, state: Mapping[str, Tensor], where: str) -> nn.Module:
        """Return the network with what was learned put in."""
        assert isinstance(model, MultiLayerFeatures)
        try:
            # Older ones are of one network, and have nothing to turn.
            mean, basis, offset, known = (state[name] for name in STATE[:4])
            return model.with_state(mean, basis, offset, known, state.get("turn"))
        except (KeyError, ShapeError) as error:
            raise FileFormatError(f"{where} does not hold what model.json tells of.", "Train it again.") from error


def open_source(start: str) -> Auxiliary:
    """Return the layers of a network, or of several, side by side and not fitted yet; by default the usual ones.

    `start` is ``"NAME=WEIGHTS@LAYER+LAYER"``; several are joined by commas.
    """
    opened = [_opened(AuxiliaryChoice.parse(one)) for one in start.split(BESIDE)]
    if len(opened) == 1:
        return opened[0]
    blends = [blend_of(one) for one in opened]
    together = SideBySide([blend.trunks.shadow for blend in blends], [one.preprocess for one in opened])
    layers, first = joined([blend.layers for blend in blends]), opened[0].preprocess
    return Auxiliary(
        BESIDE.join(one.name for one in opened), MultiLayerFeatures(together, layers, size=first.shape), first
    )


def _at_layers(start: str, layers: Sequence[str]) -> str:
    """Return what `open_source` reads, with the layers that a folder names."""
    choices = [AuxiliaryChoice.parse(one) for one in start.split(BESIDE)]
    own = [list(layers)] if len(choices) == 1 else [layers_of(k, layers) for k in range(len(choices))]
    named = [replace(one, layer=PLUS.join(names)) for one, names in zip(choices, own, strict=True)]
    return BESIDE.join(map(str, named))


def anchored(start: str) -> str:
    """Return the networks of `start` without their layers, files and folders by absolute paths."""
    found = []
    for one in start.split(BESIDE):
        choice = AuxiliaryChoice.parse(one)
        name = str(Path(choice.name).absolute()) if Path(choice.name).is_dir() else choice.name
        weights = choice.weights and str(Path(choice.weights).absolute())
        found.append(str(AuxiliaryChoice(name, weights)))
    return BESIDE.join(found)


def _opened(choice: AuxiliaryChoice) -> Auxiliary:
    from partswap.models.auxiliaries.load import build_auxiliary  # which opens learned ones, too

    if choice.layer is None:
        whole = build_auxiliary(choice)
        network = getattr(getattr(getattr(whole.model, "features", None), "body", None), "twin", None)
        if not isinstance(network, nn.Module):
            raise SettingError(
                f"{choice.name} is no network with layers.", "Start from a network, and name its layers."
            )
        choice = replace(choice, layer=PLUS.join(default_auxiliary_layers(network, whole.preprocess.shape)))
    elif PLUS not in choice.layer:
        raise SettingError(f"{choice} names one layer.", "Name several, as in layer3+layer4.0.")
    return build_auxiliary(choice)


def blend_of(auxiliary: Auxiliary) -> MultiLayerFeatures:
    """Return the layers an auxiliary is made of."""
    assert isinstance(auxiliary.model, MultiLayerFeatures)  # it was opened with several
    return auxiliary.model


def is_learned(folder: Path) -> bool:
    """Tell whether a folder holds a trained auxiliary, finished or not."""
    told = [folder / name for name in ("model.json", "training.json") if (folder / name).exists()]
    about = read_json(told[0]) if told else None
    return isinstance(about, dict) and about.get("kind") == TrainedAuxiliary.kind


def load_learned(folder: str | Path, weights: str | None = None) -> Auxiliary:
    """Return the auxiliary in a folder; `weights` is where those of the network below are, if not where they were."""
    changes = {}
    if weights is not None:
        was = read_about(TrainedAuxiliary, Path(folder))["architecture"].split(BESIDE)
        files = weights.split(BESIDE)
        if len(files) != len(was):
            raise SettingError(
                f"{folder} is made of {len(was)} networks, and {len(files)} files of weights are named.",
                "Name one for each, joined by commas.",
            )
        named = [replace(AuxiliaryChoice.parse(one), weights=file) for one, file in zip(was, files, strict=True)]
        changes = {"architecture": BESIDE.join(map(str, named))}
    learned = load_trained(TrainedAuxiliary, folder, **changes)
    return Auxiliary(Path(folder).name, learned.model, learned.preprocess, usual=learned.record["familiar"])


def record_training(folder: Path, data: str, cache: Path | None = None) -> None:
    """Note that the auxiliary in a folder was trained on images of this fingerprint, for ``auto`` to find it."""
    notes = (cache or default_cache()) / NOTES
    write_json(notes / f"{data}.json", {"folder": str(folder.absolute())}, place="cache")


def find_auxiliary_for(data: str, cache: Path | None = None) -> Path | None:
    """Return the folder of an auxiliary that was trained on images of this fingerprint, if it is still there."""
    note = (cache or default_cache()) / NOTES / f"{data}.json"
    folder = Path(read_json(note)["folder"]) if note.is_file() else None
    return folder if folder is not None and (folder / "model.json").is_file() else None
