"""Features of a whole data set: computed once, in batches, streamed to disk, read through a memory map.

Memory does not grow with the data set. Images are decoded on threads while the network works on the batch before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partswap.cut.trunk import Trunk
from partswap.data.base import Dataset
from partswap.errors import NonFiniteError, ShapeError
from partswap.explainer import Encoded, Explainer
from partswap.grid import GridShape, resize_grid
from partswap.images import Preprocess
from partswap.models.auxiliaries import Auxiliary
from partswap.models.fingerprint import model_fingerprint
from partswap.models.precision import autocast
from partswap.progress import Track, no_progress
from partswap.store import Store, default_cache

BATCH = 32


@dataclass(frozen=True)
class Encodings:
    """A data set after the features, on disk; `select` brings some images to memory.

    Attributes
    ----------
    data : Dataset
        The images.
    preprocess : Preprocess
        How the classifier sees them.
    grids : numpy.ndarray
        ``(n, d, h, w)`` half precision, memory-mapped.
    logits : Tensor
        ``(n, classes)``, of the grids as they are stored.
    contexts, aux : numpy.ndarray or None
        A vision transformer's other tokens; auxiliary grids, on the classifier's grid.
    """

    data: Dataset
    preprocess: Preprocess
    grids: NDArray[np.float16]
    logits: Tensor
    contexts: NDArray[np.float16] | None = None
    aux: NDArray[np.float16] | None = None

    def __len__(self) -> int:
        return len(self.grids)

    def select(self, indices: Sequence[int], *, pictures: bool = False) -> Encoded:
        """Return some images in memory, single precision, with pictures if they are wanted."""
        at = list(indices)
        return Encoded(
            _tensor(self.grids, at),
            None if self.contexts is None else _tensor(self.contexts, at),
            None if self.aux is None else _tensor(self.aux, at),
            self.logits[at],
            [self.preprocess.canvas(self.data.image(i)) for i in at] if pictures else [],
            [str(i) for i in at],
        )


def _tensor(array: NDArray[np.float16], at: list[int]) -> Tensor:
    return torch.from_numpy(np.stack([array[i] for i in at]).astype(np.float32))


def encode_dataset(
    data: Dataset,
    explainer: Explainer,
    *,
    cache: Path | None = None,
    precision: str = "float32",
    track: Track = no_progress,
) -> Encodings:
    """Return the features (and auxiliary features) of a data set for an explainer, from the cache where they are in it.

    Parameters
    ----------
    data : Dataset
        The images.
    explainer : Explainer
        Which network, cut where, with which auxiliary.
    cache : Path, optional
        Folder of caches; `partswap.store.default_cache` if not given.
    precision : {"float32", "bfloat16"}
        Of the forward pass; bfloat16 takes half the time where the processor has it.
    track : Track
        Shows progress; see `partswap.progress`.
    """
    classifier = classifier_features(data, explainer, cache=cache, precision=precision, track=track)
    aux = None
    if explainer.auxiliary is not None and _is_own(explainer.auxiliary, explainer):
        aux = classifier.array("grids")  # there is no need to compute them twice
    elif explainer.auxiliary is not None:
        aux = auxiliary_features(
            data,
            explainer.auxiliary,
            explainer.preprocess,
            explainer.cut.grid,
            cache=cache,
            precision=precision,
            track=track,
        )
    contexts = classifier.array("contexts") if "contexts" in classifier.names else None
    logits = torch.from_numpy(np.array(classifier.array("logits")))
    return Encodings(data, explainer.preprocess, classifier.array("grids"), logits, contexts, aux)


def _is_own(auxiliary: Auxiliary, explainer: Explainer) -> bool:
    """Tell whether an auxiliary's grids are those of the classifier itself, at the layer it is cut at."""
    trunk, split = auxiliary.model, explainer.cut
    if not isinstance(trunk, Trunk) or trunk.layer != split.layer or auxiliary.preprocess != explainer.preprocess:
        return False
    mine, theirs = ({p.data_ptr() for p in m.parameters()} for m in (split.features, trunk))
    return bool(mine) and mine <= theirs


def classifier_features(
    data: Dataset,
    explainer: Explainer,
    *,
    cache: Path | None = None,
    precision: str = "float32",
    track: Track = no_progress,
    batch: int = BATCH,
) -> Store:
    """Return the finished store of a classifier's grids and logits."""
    split = explainer.cut
    key = {
        "what": "classifier features",
        "data": data.fingerprint(),
        "split": data.split,
        "features": model_fingerprint(split.features),
        "head": model_fingerprint(split.head),
        "layer": split.layer,
        "preprocess": explainer.preprocess.key(),
        "precision": precision,
        "batch": batch,
    }
    store = Store(cache or default_cache(), f"features-{explainer.model_name}", key, len(data))

    def compute(inputs: Tensor) -> dict[str, Tensor]:
        with autocast(precision, explainer.device):
            grid = split.features(inputs.to(explainer.device))
        context = getattr(grid, "context", None)
        # Half precision is what is stored, so the logits are those of what is stored.
        out = {"grids": halved(grid, "the classifier")}
        if context is not None:
            out["contexts"] = halved(context, "the classifier")
        rounded = {k: v.float() for k, v in out.items()}
        out["logits"] = split.head(rounded["grids"], rounded.get("contexts")).float()
        return out

    fill(store, lambda i: explainer.preprocess(data.image(i))[0], compute, f"features {data.split}", track, batch)
    return store


def auxiliary_features(
    data: Dataset,
    auxiliary: Auxiliary,
    preprocess: Preprocess,
    grid: GridShape,
    *,
    cache: Path | None = None,
    precision: str = "float32",
    track: Track = no_progress,
    batch: int = BATCH,
) -> NDArray[np.float16]:
    """Return an auxiliary's grids of what a classifier with `preprocess` sees, resized to the classifier's grid."""
    key = {
        "what": "auxiliary features",
        "data": data.fingerprint(),
        "split": data.split,
        "auxiliary": model_fingerprint(auxiliary.model),
        "preprocess": [preprocess.key(), auxiliary.preprocess.key()],
        "grid": list(grid),
        "precision": precision,
        "batch": batch,
    }
    store = Store(cache or default_cache(), f"auxiliary-{auxiliary.name.replace(':', '-')}", key, len(data))
    device = next((p.device for p in auxiliary.model.parameters()), torch.device("cpu"))

    def compute(inputs: Tensor) -> dict[str, Tensor]:
        with autocast(precision, device):
            grids = auxiliary.forward(inputs.to(device))
        return {"grids": halved(resize_grid(grids.float(), grid), f"the auxiliary {auxiliary.name}")}

    def read(index: int) -> Tensor:
        return auxiliary.inputs([preprocess.canvas(data.image(index))])[0]

    fill(store, read, compute, f"{auxiliary.name} {data.split}", track, batch)
    return store.array("grids")


def fill(
    store: Store,
    read: Callable[[int], Tensor],
    compute: Callable[[Tensor], dict[str, Tensor]],
    title: str,
    track: Track = no_progress,
    batch: int = BATCH,
) -> None:
    """Compute what a store lacks, row by row of what `read` gives, beginning where an earlier run stopped."""
    if store.complete:
        return
    with store.alone(), torch.no_grad():
        # Batches begin at multiples of their size, so a run that was killed computes the very same batches.
        chunks = [range(start, min(start + batch, store.count)) for start in range(store.done, store.count, batch)]
        with track(title, store.count, store.done) as advance:
            for inputs in prefetch(chunks, read):
                found = compute(inputs)
                store.append(**{name: rows.cpu().numpy() for name, rows in found.items()})
                advance(len(inputs))


def prefetch(chunks: Sequence[Sequence[int]], read: Callable[[int], Tensor], *, workers: int = 2) -> Iterator[Tensor]:
    """Yield batches of inputs, the next one being read on threads while the caller works."""
    with ThreadPoolExecutor(min(workers, os.cpu_count() or 1)) as pool:
        pending: list[Any] = []
        queue = iter(chunks)
        for chunk in queue:
            pending.append([pool.submit(read, i) for i in chunk])
            if len(pending) > 1:
                yield _stack([future.result() for future in pending.pop(0)])
        for futures in pending:
            yield _stack([future.result() for future in futures])


def _stack(inputs: list[Tensor]) -> Tensor:
    shapes = {tuple(x.shape) for x in inputs}
    if len(shapes) > 1:
        raise ShapeError(f"images of different shapes {sorted(shapes)}.", "Preprocess them to one size.")
    return torch.stack(inputs).contiguous(memory_format=torch.channels_last)


def halved(values: Tensor, who: str) -> Tensor:
    """Return values in half precision; those that do not fit are an error and not infinity."""
    half = values.half()
    if not bool(torch.isfinite(half).all()):
        raise NonFiniteError(
            f"features of {who} are not finite in half precision (largest {float(values.abs().max()):.3g}).",
            "Check its weights and the images' normalisation; or cut after a normalisation layer.",
        )
    return half
