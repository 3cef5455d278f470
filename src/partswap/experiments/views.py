"""What training feeds on: augmented images, or the frozen trunk's output for a few views of each image, from disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partswap.data.base import Dataset, Sample
from partswap.data.features import fill, halved, prefetch
from partswap.data.geometry import RandomView, on_canvas
from partswap.images import Preprocess
from partswap.models.fingerprint import model_fingerprint
from partswap.models.precision import autocast
from partswap.models.training import shuffled, step_seed
from partswap.progress import Track, no_progress
from partswap.splitting import Split
from partswap.store import Store, default_cache


class Views:
    """Views of the images of a data set: number 0 is what the model sees at test time, the others are random.

    Parameters
    ----------
    data : Dataset
        The images.
    preprocess : Preprocess
        Size, mean and standard deviation; the geometry of view 0.
    seed : int
        For the random views.
    scale : float
        Smallest share of the image's area that a random view shows.
    """

    def __init__(self, data: Dataset, preprocess: Preprocess, *, seed: int = 0, scale: float = 0.4) -> None:
        self.data, self.preprocess, self.seed = data, preprocess, seed
        self.random = RandomView(preprocess.size, scale=(scale, 1.0), flip=True)

    def sample(self, index: int, view: int, *, annotations: bool = True) -> Sample:
        """Return one view of one image; keypoints and masks go with it."""
        bare = None if annotations else Sample(str(index), self.data.image(index), self.data.label(index))
        sample = bare or self.data[index]
        if view == 0:
            return on_canvas(sample, self.preprocess)
        return self.random(sample, step_seed(self.seed, 2, index, view))

    def tensor(self, index: int, view: int) -> Tensor:
        """Return one view as a network's input."""
        return self.preprocess.tensor(self.sample(index, view, annotations=False).image)


class FrozenViews:
    """The output of a frozen trunk for some views of every image, on disk.

    Parameters
    ----------
    views : Views
        Of which images.
    split : Split
        The network, cut where it is frozen.
    count : int
        How many views of each image.
    """

    def __init__(
        self,
        views: Views,
        split: Split,
        count: int,
        *,
        cache: Path | None = None,
        precision: str = "float32",
        track: Track = no_progress,
    ) -> None:
        self.views, self.count = views, count
        images = len(views.data)
        key = {
            "what": "views behind a frozen trunk",
            "data": views.data.fingerprint(),
            "split": views.data.split,
            "trunk": model_fingerprint(split.features),
            "layer": split.layer,
            "preprocess": repr(views.preprocess),
            "views": [count, views.seed, repr(views.random)] if count > 1 else [1],
            "precision": precision,
        }
        store = Store(cache or default_cache(), f"trunk-{split.layer}", key, images * count)
        device = next((p.device for p in split.features.parameters()), torch.device("cpu"))

        def compute(inputs: Tensor) -> dict[str, Tensor]:
            with autocast(precision, device):
                grids = split.features(inputs.to(device))
            context = getattr(grids, "context", None)
            out = {"grids": halved(grids, "the frozen trunk")}
            return out if context is None else {**out, "contexts": halved(context, "the frozen trunk")}

        def read(row: int) -> Tensor:
            return views.tensor(row % images, row // images)

        fill(store, read, compute, f"{split.layer} {views.data.split}", track)
        self.arrays: list[NDArray[np.float16]] = [
            store.array(name) for name in ("grids", "contexts") if name in store.names
        ]

    def rows(self, rows: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the trunk's output for rows ``view * images + image``, single precision."""
        return tuple(torch.from_numpy(np.stack([array[r] for r in rows]).astype(np.float32)) for array in self.arrays)

    def epoch(
        self, epoch: int, first: int, batch: int, seed: int
    ) -> Iterator[tuple[tuple[Tensor, ...], Tensor, Tensor]]:
        """Yield (inputs, rows, flipped) of an epoch from step `first`: a random view of each image, flipped or not."""
        images = len(self.views.data)
        order = shuffled(images, seed, epoch)
        for step in range(first, -(-images // batch)):
            chosen = order[step * batch : (step + 1) * batch]
            rng = np.random.default_rng((seed, 3, epoch, step))
            rows = [
                int(v) * images + i for v, i in zip(rng.integers(self.count, size=len(chosen)), chosen, strict=True)
            ]
            inputs = self.rows(rows)
            # Tokens beside the grid know nothing of left and right, and a mirrored grid would contradict them.
            flipped = torch.from_numpy(rng.random(len(chosen)) < 0.5) & (len(inputs) == 1)
            inputs[0][flipped] = inputs[0][flipped].flip(3)
            yield inputs, torch.tensor(rows), flipped


def image_batches(views: Views, epoch: int, first: int, batch: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (inputs, labels) of an epoch from step `first`: a new random view of every image, read ahead on threads."""
    order = shuffled(len(views.data), seed, epoch)
    chunks = [order[start : start + batch] for start in range(first * batch, len(order), batch)]
    # View numbers from 1 on are random; each epoch has its own.
    for chosen, inputs in zip(chunks, prefetch(chunks, lambda i: views.tensor(i, 1 + epoch)), strict=True):
        yield inputs, torch.tensor([views.data.label(i) for i in chosen])
