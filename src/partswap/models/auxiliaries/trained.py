"""An auxiliary that was trained on some images (``partswap train auxiliary``), in a folder.

The folder holds the trained weights, a few megabytes, and names the network below it with a digest of its weights: that
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
from partswap.models.side_by_side import SEPARATOR, SideBySide, layers_of, prefixed_layers
from partswap.utils.files import read_json, write_json
from partswap.utils.store import default_cache

#: Folder of the cache with notes on what was trained where.
NOTES = "auxiliaries"


@dataclass(frozen=True)
class TrainedAuxiliary(Trained):
    """Trained weights, and the network that they belong to."""

    kind = "auxiliary"
    model: MultiLayerFeatures
    layers: Sequence[str]  #: of the network, which `architecture` names as `AuxiliaryChoice` writes it
    weights: str  #: digest of the network's weights
    preprocess: Preprocess  #: what the network wants its images to be like

    @staticmethod
    def build(about: Mapping[str, Any]) -> nn.Module:
        """Return the network below, up to the layers."""
        start = about["architecture"]
        features = multi_layer_features_of(open_networks(_at_layers(start, about["layers"])))
        if weights_digest(features.trunks) != about["weights"]:
            names = " or ".join(choice.name for choice in _choices(start))
            raise PartswapError(
                f"{names} has other weights than when the auxiliary was trained.",
                "Give those it was trained on: FOLDER=WEIGHTS; or train it again.",
            )
        recipe = about["record"]["recipe"]  # older files have neither option
        return features.with_options(
            flip_average=recipe.get("both_ways", False), smoothing=recipe.get("smoothing", 0.0)
        )

    def stored(self) -> dict[str, Tensor]:
        """Return the trained weights; the network below has a file of its own."""
        return {name: getattr(self.model, name) for name in STATE}

    @staticmethod
    def restored(model: nn.Module, state: Mapping[str, Tensor], path: str) -> nn.Module:
        """Return the network with the trained weights in it."""
        assert isinstance(model, MultiLayerFeatures)
        try:
            # Older files are of one network, and have no projection.
            mean, basis, offset, prototypes = (state[name] for name in STATE[:4])
            return model.with_state(mean, basis, offset, prototypes, state.get("turn"))
        except (KeyError, ShapeError) as error:
            raise FileFormatError(f"{path} does not hold what model.json tells of.", "Train it again.") from error


def open_networks(start: str) -> Auxiliary:
    """Return the layers of a network, or of several, side by side and not fitted yet; by default the usual ones.

    `start` is ``"NAME=WEIGHTS@LAYER+LAYER"``; several are joined by commas.
    """
    opened = [_opened(choice) for choice in _choices(start)]
    if len(opened) == 1:
        return opened[0]
    parts, preprocesses = [multi_layer_features_of(part) for part in opened], [part.preprocess for part in opened]
    networks = SideBySide([part.trunks.shadow for part in parts], preprocesses)
    features = MultiLayerFeatures(
        networks, prefixed_layers([part.layers for part in parts]), size=preprocesses[0].shape
    )
    return Auxiliary(SEPARATOR.join(part.name for part in opened), features, preprocesses[0])


def _choices(start: str) -> list[AuxiliaryChoice]:
    return [AuxiliaryChoice.parse(text) for text in start.split(SEPARATOR)]


def _at_layers(start: str, layers: Sequence[str]) -> str:
    """Return what `open_networks` reads, with the layers that a folder names."""
    choices = _choices(start)
    names = [list(layers)] if len(choices) == 1 else [layers_of(k, layers) for k in range(len(choices))]
    return SEPARATOR.join(str(replace(choice, layer=PLUS.join(n))) for choice, n in zip(choices, names, strict=True))


def absolute_networks(start: str) -> str:
    """Return the networks of `start` without their layers, files and folders by absolute paths."""
    texts = []
    for choice in _choices(start):
        name = str(Path(choice.name).absolute()) if Path(choice.name).is_dir() else choice.name
        weights = choice.weights and str(Path(choice.weights).absolute())
        texts.append(str(AuxiliaryChoice(name, weights)))
    return SEPARATOR.join(texts)


def _opened(choice: AuxiliaryChoice) -> Auxiliary:
    from partswap.models.auxiliaries.load import build_auxiliary  # which opens trained ones, too

    if choice.layer is None:
        whole = build_auxiliary(choice)
        network = getattr(getattr(getattr(whole.model, "features", None), "body", None), "shadow", None)
        if not isinstance(network, nn.Module):
            raise SettingError(
                f"{choice.name} is no network with layers.", "Start from a network, and name its layers."
            )
        choice = replace(choice, layer=PLUS.join(default_auxiliary_layers(network, whole.preprocess.shape)))
    elif PLUS not in choice.layer:
        raise SettingError(f"{choice} names one layer.", "Name several, as in layer3+layer4.0.")
    return build_auxiliary(choice)


def multi_layer_features_of(auxiliary: Auxiliary) -> MultiLayerFeatures:
    """Return the layers an auxiliary is made of."""
    assert isinstance(auxiliary.model, MultiLayerFeatures)  # it was opened with several
    return auxiliary.model


def is_trained_auxiliary(folder: Path) -> bool:
    """Tell whether a folder holds a trained auxiliary, finished or not."""
    records = [folder / name for name in ("model.json", "training.json") if (folder / name).exists()]
    about = read_json(records[0]) if records else None
    return isinstance(about, dict) and about.get("kind") == TrainedAuxiliary.kind


def load_trained_auxiliary(folder: str | Path, weights: str | None = None) -> Auxiliary:
    """Return the auxiliary in a folder; `weights` is where those of the network below are, if not where they were."""
    changes = {}
    if weights is not None:
        choices = _choices(read_about(TrainedAuxiliary, Path(folder))["architecture"])
        files = weights.split(SEPARATOR)
        if len(files) != len(choices):
            raise SettingError(
                f"{folder} is made of {len(choices)} networks, and {len(files)} files of weights are named.",
                "Name one for each, joined by commas.",
            )
        located = [replace(choice, weights=file) for choice, file in zip(choices, files, strict=True)]
        changes = {"architecture": SEPARATOR.join(map(str, located))}
    trained = load_trained(TrainedAuxiliary, folder, **changes)
    similarity = trained.record["familiar"]
    return Auxiliary(Path(folder).name, trained.model, trained.preprocess, typical_similarity=similarity)


def record_training(folder: Path, data: str, cache: Path | None = None) -> None:
    """Store in the cache on which images, by fingerprint, the auxiliary in a folder was trained; ``auto`` reads it."""
    write_json(_note(data, cache), {"folder": str(folder.absolute())}, place="cache")


def find_auxiliary_for(data: str, cache: Path | None = None) -> Path | None:
    """Return the folder of an auxiliary that was trained on images of this fingerprint, if it is still there."""
    note = _note(data, cache)
    folder = Path(read_json(note)["folder"]) if note.is_file() else None
    return folder if folder is not None and (folder / "model.json").is_file() else None


def _note(data: str, cache: Path | None) -> Path:
    return (cache or default_cache()) / NOTES / f"{data}.json"
