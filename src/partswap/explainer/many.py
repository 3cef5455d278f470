"""Several images with the same distractors: what goes wrong with one of them does not stop the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from partswap.data.base import Dataset
from partswap.explainer.notes import warn
from partswap.explainer.target import Targets, each_target
from partswap.features.encode import EncodedImages
from partswap.features.own_images import encode_images, read_images
from partswap.inputs.images import list_images
from partswap.results.counterfactual import Counterfactual
from partswap.utils.failures import Failures, OnError
from partswap.utils.progress import tracked

if TYPE_CHECKING:
    from partswap.explainer.explainer import Explainer


def explain_each(
    explainer: Explainer,
    queries: Any,
    distractors: Any,
    target: Targets,
    on_error: OnError,
    options: Mapping[str, Any],
) -> list[Any]:
    """Return a counterfactual per query, None where one could not be explained; `options` are those of `explain`."""
    failures = Failures(on_error)
    sources = queries if isinstance(queries, EncodedImages) else list_images(queries)
    targets = each_target(target, len(sources), explainer.class_names, explainer.cut.classes)
    images = distractors if isinstance(distractors, Dataset) else explainer.encode(distractors)
    encoded = _encode_each(explainer, queries, sources, failures)
    results: list[Counterfactual | None] = [None] * len(sources)
    for index, query in tracked(encoded.items(), "explanations", explainer.track):
        with failures.collecting(index, query.names[0]):
            results[index] = explainer.explain(query, images, targets[index], **options)
    if (text := failures.raise_or_note(results)) is not None:
        warn(text)
    return results


def _encode_each(
    explainer: Explainer, images: Any, sources: EncodedImages | list[Any], failures: Failures
) -> dict[int, EncodedImages]:
    """Return the features of each image by its index; those that cannot be read are `failures`."""
    if isinstance(sources, EncodedImages):
        return {index: sources.select([index]) for index in range(len(sources))}
    rows = read_images(sources, explainer.preprocess, explainer.track, failures)
    explainer.notes.add_inputs(images, rows.values())
    if not rows:
        return {}
    readable = [sources[index] for index in rows]
    encoded = encode_images(explainer, readable, list(rows.values()), explainer.batch_size, explainer.track)
    return {index: encoded.select([k]) for k, index in enumerate(rows)}
