"""Inputs of training: augmented images, or the frozen trunk's output for a few views of each image, from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partswap.cut.network import Cut
from partswap.data.base import Dataset, Sample
from partswap.data.geometry import RandomView, on_canvas
from partswap.data.subset import Subset
from partswap.features.encode import fill_store, halved_grids, prefetch
from partswap.inputs.preprocess import Preprocess
from partswap.models.fingerprint import model_fingerprint
from partswap.models.precision import autocast, device_of
from partswap.training.loop import shuffled, step_seed
from partswap.utils.progress import Track, no_progress
from partswap.utils.store import Store, default_cache

#: From images and the view of each to the trunk's output.
Rows = Callable[[Sequence[int], Sequence[int]], tuple[Tensor, ...]]


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
    """

    def __init__(self, data: Dataset, preprocess: Preprocess, *, seed: int = 0) -> None:
        self.data, self.preprocess, self.seed = data, preprocess, seed
        self.random = RandomView(preprocess.side, scale=(0.4, 1.0), flip=True)

    def sample(self, index: int, view: int) -> Sample:
        """Return one view of one image; keypoints and masks go with it."""
        return self._seen(self.data[index], index, view)

    def tensor(self, index: int, view: int) -> Tensor:
        """Return one view as a network's input."""
        bare = Sample(str(index), self.data.image(index), self.data.label(index))
        return self.preprocess.tensor(self._seen(bare, index, view).image)

    def _seen(self, sample: Sample, index: int, view: int) -> Sample:
        if view == 0:
            return on_canvas(sample, self.preprocess)
        return self.random(sample, step_seed(self.seed, 2, index, view))


@dataclass(frozen=True)
class Batch:
    """The inputs of one step."""

    inputs: tuple[Tensor, ...]  #: Images, or the frozen trunk's output.
    images: list[int]  #: Which images.
    views: list[int]  #: Which view of each.
    flipped: Tensor  #: ``(n,)`` bool: inputs that were mirrored after the view was taken.


class BatchSource:
    """Feeds a network from images, or the part of it behind a frozen layer from the cache.

    Parameters
    ----------
    preprocess : Preprocess
        How images become inputs.
    trunk : Cut or None
        The network cut where it is frozen; None to feed images.
    views : int
        How many views of each image to keep behind the trunk.
    """

    def __init__(
        self,
        preprocess: Preprocess,
        trunk: Cut | None,
        views: int,
        *,
        cache: Path | None = None,
        precision: str = "float32",
        seed: int = 0,
        track: Track = no_progress,
    ) -> None:
        self.preprocess, self.trunk, self.count, self.seed = preprocess, trunk, views, seed
        self.cache, self.precision, self.track = cache, precision, track
        #: The trunk's output by data set and number of views; the data set is kept so that its id stays its own.
        self._kept: dict[tuple[int, int], tuple[Dataset, list[list[NDArray[np.float16]]]]] = {}

    def views(self, data: Dataset) -> Views:
        """Return the views of a data set."""
        return Views(data, self.preprocess, seed=self.seed)

    def prepare(self, data: Dataset) -> None:
        """Compute the trunk's output for a data set, if there is a trunk."""
        if self.trunk is not None:
            self._rows(data, self.trunk, self.count)

    def epoch(self, data: Dataset, batch: int, epoch: int, first: int) -> Iterator[Batch]:
        """Yield an epoch from step `first`: every image once, a random view of it."""
        order = shuffled(len(data), self.seed, epoch)
        chunks = [order[start : start + batch] for start in range(first * batch, len(order), batch)]
        if self.trunk is None:
            # View numbers from 1 on are random; each epoch has its own.
            yield from self._from_images(data, chunks, 1 + epoch)
            return
        rows = self._rows(data, self.trunk, self.count)
        for step, chosen in enumerate(chunks, first):
            rng = np.random.default_rng((self.seed, 3, epoch, step))
            numbers = rng.integers(self.count, size=len(chosen)).tolist()
            kept = rows(chosen, numbers)
            # Tokens beside the grid know left from right, and a mirrored grid would contradict them.
            flipped = torch.from_numpy(rng.random(len(chosen)) < 0.5) & (len(kept) == 1)
            kept[0][flipped] = kept[0][flipped].flip(3)
            yield Batch(kept, chosen, numbers, flipped)

    def test(self, data: Dataset, batch: int = 32) -> Iterator[Batch]:
        """Yield every image in order, as it is at test time."""
        chunks = [list(range(start, min(start + batch, len(data)))) for start in range(0, len(data), batch)]
        if self.trunk is None:
            yield from self._from_images(data, chunks, 0)
            return
        rows = self._rows(data, self.trunk, 1)
        for chunk in chunks:
            yield _unflipped(rows(chunk, [0] * len(chunk)), chunk, 0)

    def _from_images(self, data: Dataset, chunks: list[list[int]], view: int) -> Iterator[Batch]:
        views = self.views(data)
        for chunk, inputs in zip(chunks, prefetch(chunks, lambda i: views.tensor(i, view)), strict=True):
            yield _unflipped((inputs,), chunk, view)

    def _rows(self, data: Dataset, trunk: Cut, count: int) -> Rows:
        """Return a function that gives the trunk's output, in single precision, for some images and a view of each."""
        indices: Sequence[int] = range(len(data))
        if isinstance(data, Subset) and (id(data.data), self.count) in self._kept:
            indices, count, data = data.indices, self.count, data.data  # the whole's rows serve its parts
        at = (id(data), count)
        if at not in self._kept:
            self._kept[at] = data, self._arrays(self.views(data), trunk, count)
        arrays = self._kept[at][1]

        def rows(images: Sequence[int], numbers: Sequence[int]) -> tuple[Tensor, ...]:
            kept = [[array[indices[i]] for array in arrays[v]] for i, v in zip(images, numbers, strict=True)]
            return tuple(torch.from_numpy(np.stack(each).astype(np.float32)) for each in zip(*kept, strict=True))

        return rows

    def _arrays(self, views: Views, trunk: Cut, count: int) -> list[list[NDArray[np.float16]]]:
        """Return the trunk's output for `count` views of every image, on disk, one store per view."""
        device = device_of(trunk.features)
        key = {
            "what": "a view behind a frozen trunk",
            "data": views.data.fingerprint(),
            "split": views.data.split,
            "trunk": model_fingerprint(trunk.features),
            "layer": trunk.layer,
            "precision": self.precision,
        }

        def compute(inputs: Tensor) -> dict[str, Tensor]:
            with autocast(self.precision, device):
                return halved_grids(trunk.features(inputs.to(device)), "the frozen trunk")

        def stored(view: int) -> list[NDArray[np.float16]]:
            # Random views do not depend on the geometry of the test-time one.
            usual = views.preprocess if view == 0 else replace(views.preprocess, resize=None)
            which = [view, *([] if view == 0 else [views.seed, repr(views.random)])]
            full = {**key, "preprocess": usual.key(), "view": which}
            store = Store(self.cache or default_cache(), f"trunk-{trunk.layer}-{view}", full, len(views.data))
            title = f"{trunk.layer} {views.data.split} {view}"
            fill_store(store, lambda index: views.tensor(index, view), compute, title, self.track)
            return [store.array(name) for name in ("grids", "contexts") if name in store.names]

        return [stored(view) for view in range(count)]


def _unflipped(inputs: tuple[Tensor, ...], images: list[int], view: int) -> Batch:
    return Batch(inputs, images, [view] * len(images), torch.zeros(len(images), dtype=torch.bool))
