"""What training feeds on: augmented images, or the frozen trunk's output for a few views of each image, from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partswap.cut.network import Cut
from partswap.data.base import Dataset, Sample
from partswap.data.geometry import RandomView, on_canvas
from partswap.data.subset import Subset
from partswap.features import fill, halved, prefetch
from partswap.images import Preprocess
from partswap.models.fingerprint import model_fingerprint
from partswap.models.precision import autocast
from partswap.progress import Track, no_progress
from partswap.store import Store, default_cache
from partswap.training.loop import shuffled, step_seed

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
    """The output of a frozen trunk for some views of every image, on disk, one store per view.

    Parameters
    ----------
    views : Views
        Of which images.
    cut : Cut
        The network, cut where it is frozen.
    count : int
        How many views of each image.
    """

    def __init__(
        self,
        views: Views,
        cut: Cut,
        count: int,
        *,
        cache: Path | None = None,
        precision: str = "float32",
        track: Track = no_progress,
    ) -> None:
        self.views, self.cut, self.precision = views, cut, precision
        self._device = next((p.device for p in cut.features.parameters()), torch.device("cpu"))
        key = {
            "what": "a view behind a frozen trunk",
            "data": views.data.fingerprint(),
            "split": views.data.split,
            "trunk": model_fingerprint(cut.features),
            "layer": cut.layer,
            "precision": precision,
        }
        self.arrays = [self._view(number, key, cache or default_cache(), track) for number in range(count)]

    def rows(self, images: Sequence[int], numbers: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the trunk's output for one view of each of some images, single precision."""
        kept = [[array[i] for array in self.arrays[v]] for i, v in zip(images, numbers, strict=True)]
        return tuple(torch.from_numpy(np.stack(rows).astype(np.float32)) for rows in zip(*kept, strict=True))

    def _view(self, number: int, key: Mapping[str, Any], cache: Path, track: Track) -> list[NDArray[np.float16]]:
        views = self.views
        # Random views do not depend on the geometry of the test-time one.
        usual = views.preprocess if number == 0 else replace(views.preprocess, resize=None)
        which = [number, *([] if number == 0 else [views.seed, repr(views.random)])]
        full = {**key, "preprocess": usual.key(), "view": which}
        store = Store(cache, f"trunk-{self.cut.layer}-{number}", full, len(views.data))
        title = f"{self.cut.layer} {views.data.split} {number}"
        fill(store, lambda index: views.tensor(index, number), self._compute, title, track)
        return [store.array(name) for name in ("grids", "contexts") if name in store.names]

    def _compute(self, inputs: Tensor) -> dict[str, Tensor]:
        with autocast(self.precision, self._device):
            grids = self.cut.features(inputs.to(self._device))
        context = getattr(grids, "context", None)
        out = {"grids": halved(grids, "the frozen trunk")}
        return out if context is None else {**out, "contexts": halved(context, "the frozen trunk")}


@dataclass(frozen=True)
class Meal:
    """What a network gets in one step.

    Attributes
    ----------
    inputs : tuple of Tensor
        Images, or what the frozen trunk made of them.
    images, views : list of int
        Which images, and which view of each.
    flipped : Tensor
        ``(n,)`` bool: inputs that were mirrored after the view was taken.
    """

    inputs: tuple[Tensor, ...]
    images: list[int]
    views: list[int]
    flipped: Tensor


class Feed:
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
        self._frozen: dict[tuple[int, int], FrozenViews] = {}  # by data set and number of views

    def views(self, data: Dataset) -> Views:
        """Return the views of a data set."""
        return Views(data, self.preprocess, seed=self.seed)

    def prepare(self, data: Dataset) -> None:
        """Compute what training on a data set will need, if anything."""
        if self.trunk is not None:
            self._rows(data, self.count)

    def epoch(self, data: Dataset, batch: int, epoch: int, first: int) -> Iterator[Meal]:
        """Yield an epoch from step `first`: every image once, a random view of it."""
        order = shuffled(len(data), self.seed, epoch)
        chunks = [order[start : start + batch] for start in range(first * batch, len(order), batch)]
        if self.trunk is None:
            # View numbers from 1 on are random; each epoch has its own.
            views = self.views(data)
            for chosen, inputs in zip(chunks, prefetch(chunks, lambda i: views.tensor(i, 1 + epoch)), strict=True):
                unflipped = torch.zeros(len(chosen), dtype=torch.bool)
                yield Meal((inputs,), chosen, [1 + epoch] * len(chosen), unflipped)
            return
        rows = self._rows(data, self.count)
        for step, chosen in enumerate(chunks, first):
            rng = np.random.default_rng((self.seed, 3, epoch, step))
            numbers = [int(v) for v in rng.integers(self.count, size=len(chosen))]
            kept = rows(chosen, numbers)
            # Tokens beside the grid know left from right, and a mirrored grid would contradict them.
            flipped = torch.from_numpy(rng.random(len(chosen)) < 0.5) & (len(kept) == 1)
            kept[0][flipped] = kept[0][flipped].flip(3)
            yield Meal(kept, chosen, numbers, flipped)

    def test(self, data: Dataset, batch: int = 32) -> Iterator[Meal]:
        """Yield every image in order, as it is at test time."""
        chunks = [list(range(start, min(start + batch, len(data)))) for start in range(0, len(data), batch)]
        if self.trunk is None:
            views = self.views(data)
            inputs: Iterator[tuple[Tensor, ...]] = ((x,) for x in prefetch(chunks, lambda i: views.tensor(i, 0)))
        else:
            rows = self._rows(data, 1)
            inputs = (rows(chunk, [0] * len(chunk)) for chunk in chunks)
        for chunk, given in zip(chunks, inputs, strict=True):
            yield Meal(given, chunk, [0] * len(chunk), torch.zeros(len(chunk), dtype=torch.bool))

    def _rows(self, data: Dataset, count: int) -> Rows:
        """Return what gives the trunk's output for some images and the view of each."""
        assert self.trunk is not None
        if isinstance(data, Subset) and (whole := self._frozen.get((id(data.data), self.count))) is not None:
            indices = data.indices  # what was kept of the whole serves its parts
            return lambda images, numbers: whole.rows([indices[i] for i in images], numbers)
        at = (id(data), count)
        if at not in self._frozen:
            self._frozen[at] = FrozenViews(
                self.views(data), self.trunk, count, cache=self.cache, precision=self.precision, track=self.track
            )
        return self._frozen[at].rows
