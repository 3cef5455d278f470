"""Features of images of one's own: read, prepared and put through the network, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch

from partswap.errors import NoDistractorsError
from partswap.features.encode import EncodedImages, Encoder, PreparedImage, prepared
from partswap.inputs.images import ImageLike, name_of
from partswap.inputs.preprocess import Preprocess, stacked
from partswap.utils.failures import Failures
from partswap.utils.progress import Track, tracked


def read_images(
    sources: Sequence[ImageLike], preprocess: Preprocess, track: Track, failures: Failures | None = None
) -> dict[int, PreparedImage]:
    """Return what a model is given of each image, by its place; those that cannot be read are `failures`, if given."""
    if not sources:
        raise NoDistractorsError("there are no images.", "Pass at least one.")
    rows: dict[int, PreparedImage] = {}
    for place, image in tracked(list(enumerate(sources)), "reading images", track):
        with nullcontext() if failures is None else failures.collecting(place, name_of(image)):
            rows[place] = prepared(image, preprocess)
    return rows


def encode_images(
    encoder: Encoder, sources: list[ImageLike], rows: Sequence[PreparedImage], batch_size: int, track: Track
) -> EncodedImages:
    """Return the features and auxiliary features of images that `read_images` read."""
    inputs, pictures, frames = zip(*rows, strict=True)
    batches, logits = [], []
    with torch.inference_mode(), track("features", len(inputs)) as advance:
        for batch in stacked(inputs).split(batch_size):
            grids = encoder.cut.features(batch.to(encoder.device))
            logits.append(encoder.cut.head(grids))
            batches.append(grids)
            advance(len(batch))
    # Cloned out of inference mode, so that gradients may flow through them later.
    contexts = [grids.context for grids in batches if grids.context is not None]
    auxiliary = encoder.auxiliary
    whole = auxiliary is None or encoder.preprocess.pictured or auxiliary.preprocess.pictured
    return EncodedImages(
        torch.cat([grids.values for grids in batches]).clone(),
        torch.cat(logits).clone(),
        torch.cat(contexts).clone() if contexts else None,
        auxiliary.grids(pictures if whole else inputs, track=track) if auxiliary else None,
        [name_of(image) for image in sources],
        list(pictures),
        auxiliary.name if auxiliary else None,
        auxiliary.widths if auxiliary else (),
        list(frames),
        sources,
    )
