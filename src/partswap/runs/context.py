"""Data, classifier and auxiliary of a configuration, opened together, with their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from partswap.data.base import Dataset, open_dataset
from partswap.errors import DataError, ShapeError
from partswap.explainer.explainer import Explainer
from partswap.features.encode import EncodedImages, encode_dataset, fitted_auxiliary
from partswap.models.auxiliaries import AuxiliaryChoice, check_auxiliary
from partswap.models.checkpoints import Classifier
from partswap.models.names import normalize_name, placeholder_names
from partswap.models.open import open_classifier
from partswap.models.precision import devices, fast_precision
from partswap.runs.config import RunConfig
from partswap.runs.tasks import AnnotationCache
from partswap.utils.progress import Track, no_progress, step
from partswap.utils.store import check_cache


@dataclass(frozen=True)
class RunContext:
    """The evaluated split of a data set, a classifier (cut at `layer`) and an auxiliary, ready to explain."""

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
        with step(self.track, "cutting the network"):
            explainer = Explainer(self.classifier, self.layer, auxiliary=self.auxiliary)
        if explainer.auxiliary is None:
            return explainer
        options: dict[str, Any] = {"cache": self.cache, "track": self.track}
        return explainer.with_auxiliary(
            fitted_auxiliary(self.data, explainer.auxiliary, explainer.preprocess, **options)
        )

    @cached_property
    def encodings(self) -> EncodedImages:
        """Features of the split, from the cache where they are there."""
        return encode_dataset(self.data, self.explainer, cache=self.cache, precision=self.precision, track=self.track)

    @cached_property
    def facts(self) -> AnnotationCache:
        """What the cells of the images hold."""
        return AnnotationCache(self.data, self.classifier.preprocess, self.explainer.cut.grid)

    def with_auxiliary(self, auxiliary: AuxiliaryChoice | None) -> RunContext:
        """Return the same bench with another auxiliary."""
        return replace(self, auxiliary=auxiliary)


def open_run_context(config: RunConfig, track: Track = no_progress) -> RunContext:
    """Return data, classifier and auxiliary of a configuration; what can be refused is, before images are read."""
    auxiliary = None if config.auxiliary is None else check_auxiliary(config.auxiliary)
    check_cache(config.cache)
    with step(track, "opening the data set"):
        data = open_dataset(config.data, config.path, config.split, **config.options)
    with step(track, "opening the classifier"):
        classifier = open_classifier(config.model, config.weights, config.classes, config.stated)
    if len(classifier.classes) != len(data.classes):
        raise ShapeError(
            f"the classifier has {len(classifier.classes)} classes and the data set {len(data.classes)}.",
            "Use the data set it was trained on.",
        )
    _check_names(classifier.classes, data.classes)
    classifier.model.to(config.device if config.device in devices() else "cpu")
    classifier = replace(classifier, classes=list(data.classes))
    if auxiliary is not None and config.tau is not None:
        auxiliary = replace(auxiliary, tau=config.tau)
    precision = fast_precision() if config.precision == "auto" else config.precision
    return RunContext(data, classifier, config.layer, auxiliary, config.cache, precision, track)


def _check_names(expected: Sequence[str], actual: Sequence[str]) -> None:
    """Raise an error if the classifier has names for its classes and the data set has others."""
    if list(expected) == placeholder_names(len(expected)):
        return
    for index, (expected_name, actual_name) in enumerate(zip(expected, actual, strict=True)):
        if normalize_name(expected_name) != normalize_name(actual_name):
            raise DataError(
                f"class {index} of the classifier is {expected_name!r}, and of the data set {actual_name!r}.",
                "Use the data set it was trained on, with the same options.",
            )
