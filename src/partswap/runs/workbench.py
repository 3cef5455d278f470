"""Everything an experiment stands on, from the words one types: data, classifier, cut, auxiliary, features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from partswap import aviary
from partswap.data.base import Dataset, open_dataset
from partswap.errors import DataError, SettingError, ShapeError
from partswap.explainer import Explainer
from partswap.features import Encodings, encode_dataset
from partswap.models import shipped
from partswap.models.auxiliaries import Auxiliary, load_auxiliary
from partswap.models.checkpoints import Classifier, load_classifier
from partswap.models.precision import devices, fast_precision
from partswap.models.preprocessing import preprocess_for
from partswap.models.zoo import load_model
from partswap.progress import Track, no_progress
from partswap.runs.config import RunConfig
from partswap.runs.tasks import Facts


@dataclass(frozen=True)
class AuxiliaryChoice:
    """An auxiliary by name.

    Attributes
    ----------
    name : str
        Registered, or from the zoo.
    weights, layer : str or None
        File and cut, if not its own defaults.
    tau : float or None
        Temperature, if not its own.
    """

    name: str
    weights: str | None = None
    layer: str | None = None
    tau: float | None = None

    @classmethod
    def parse(cls, text: str) -> AuxiliaryChoice:
        """Read ``name``, ``name=weights`` or ``name=weights@layer``; an empty weights part keeps the official ones."""
        name, _, rest = text.partition("=")
        name, at, layer = name.partition("@") if not rest else (name, "", "")
        if rest:
            rest, at, layer = rest.partition("@")
        return cls(name, rest or None, layer if at else None)

    def __str__(self) -> str:
        """Return what `parse` reads."""
        layer = f"@{self.layer}" if self.layer else ""
        return f"{self.name}={self.weights}{layer}" if self.weights else f"{self.name}{layer}"

    def load(self, classifier: Classifier, layer: str | None = None) -> Auxiliary:
        """Return the auxiliary."""
        return load_auxiliary(
            self.name,
            weights=self.weights,
            layer=self.layer or (layer if self.name == "classifier" else None),
            tau=self.tau,
            classifier=classifier.model,
            preprocess=classifier.preprocess,
        )


@dataclass(frozen=True)
class Workbench:
    """A data set, a classifier and an auxiliary, ready to explain.

    Attributes
    ----------
    data : Dataset
        The evaluated split.
    classifier : Classifier
        What is explained.
    layer : str or None
        Where it is cut.
    auxiliary : AuxiliaryChoice or None
        What says which cells show the same part.
    cache : Path or None
        Folder of caches.
    precision : str
        Of feature extraction.
    """

    data: Dataset
    classifier: Classifier
    layer: str | None = None
    auxiliary: AuxiliaryChoice | None = None
    cache: Path | None = None
    precision: str = "float32"
    track: Track = field(default=no_progress, repr=False, compare=False)

    @cached_property
    def explainer(self) -> Explainer:
        """The explainer, with the default method."""
        return Explainer(
            self.classifier.model,
            self.layer,
            auxiliary=self.auxiliary.load(self.classifier, self.layer) if self.auxiliary else None,
            preprocess=self.classifier.preprocess,
            class_names=list(self.classifier.classes),
        )

    @cached_property
    def encodings(self) -> Encodings:
        """Features of the split, from the cache where they are there."""
        return encode_dataset(self.data, self.explainer, cache=self.cache, precision=self.precision, track=self.track)

    @cached_property
    def facts(self) -> Facts:
        """What the cells of the images hold."""
        return Facts(self.data, self.classifier.preprocess, self.explainer.cut.grid)

    def with_auxiliary(self, auxiliary: AuxiliaryChoice | None) -> Workbench:
        """Return the same bench with another auxiliary."""
        return replace(self, auxiliary=auxiliary)


def open_classifier(model: str, weights: str | None = None) -> Classifier:
    """Return a classifier: ``aviary:vgg``, the folder of a trained one, or a name from the zoo with weights."""
    if model.startswith("aviary:"):
        names = [s.name for s in aviary.all_species()]
        return Classifier(shipped.load(model.removeprefix("aviary:")), model, names, shipped.PREPROCESS)
    if Path(model).is_dir():
        return load_classifier(model)
    if weights is None:  # a network that knows nothing is for tests of the library only
        raise SettingError(
            f"{model} has no weights.",
            "Pass --weights FILE, or --weights default for official ones; or name the folder of a trained classifier.",
        )
    network = load_model(model, weights=weights)
    width = int(network(_probe(network)).shape[1])
    return Classifier(network, model, _numbered(width), preprocess_for(network))


def open_workbench(config: RunConfig, track: Track = no_progress) -> Workbench:
    """Return data, classifier and auxiliary of a configuration."""
    opened = open_dataset(config.data, config.path, config.split, **config.options)
    classifier = open_classifier(config.model, config.weights)
    if len(classifier.classes) != len(opened.classes):
        raise ShapeError(
            f"the classifier has {len(classifier.classes)} classes and the data set {len(opened.classes)}.",
            "Use the data set it was trained on.",
        )
    _check_names(classifier.classes, opened.classes)
    classifier.model.to(config.device if config.device in devices() else "cpu")
    classifier = replace(classifier, classes=list(opened.classes))
    auxiliary = None if config.auxiliary is None else AuxiliaryChoice.parse(config.auxiliary)
    if auxiliary is not None and config.tau is not None:
        auxiliary = replace(auxiliary, tau=config.tau)
    precision = fast_precision() if config.precision == "auto" else config.precision
    return Workbench(opened, classifier, config.layer, auxiliary, config.cache, precision, track)


def _check_names(known: Sequence[str], found: Sequence[str]) -> None:
    """Raise an error if a classifier that knows the names of its classes has others than the data set has."""
    if list(known) == _numbered(len(known)):
        return
    for index, (mine, yours) in enumerate(zip(known, found, strict=True)):
        if mine != yours:
            raise DataError(
                f"class {index} of the classifier is {mine!r}, and of the data set {yours!r}.",
                "Use the data set it was trained on, with the same options.",
            )


def _numbered(count: int) -> list[str]:
    """Return the names of classes that nobody named."""
    return [f"class {k}" for k in range(count)]


def _probe(network: Any) -> Any:
    import torch

    size = preprocess_for(network).size
    return torch.zeros(1, 3, size, size)
