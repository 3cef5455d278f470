"""Features of images: one type for those in memory and those on disk, and how a whole data set gets them.

A data set's features are computed once, in batches, streamed to disk and read through a memory map, so memory does not
grow with the data set. Images are decoded on threads while the network works on the batch before.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from partswap.cut.layer_extractor import LayerExtractor
from partswap.cut.network import Cut
from partswap.errors import NonFiniteError, SettingError, ShapeError
from partswap.grid import FeatureGrids, GridShape, resize_grid
from partswap.inputs.frame import Frame
from partswap.inputs.images import ON_WHITE, ImageLike, image_of, is_prepared
from partswap.inputs.preprocess import Preprocess, stacked
from partswap.models.auxiliaries import Auxiliary
from partswap.models.fingerprint import model_fingerprint
from partswap.models.multi_layer import COMPONENTS, MultiLayerFeatures, sample_cells
from partswap.models.precision import autocast, device_of
from partswap.models.weights import read_weights, write_tensors
from partswap.utils.progress import Track, no_progress, tracked
from partswap.utils.store import MemmapRef, Store, default_cache, digest_of

BATCH = 32
#: Images, and cells of them, that layers are fitted on, at most.
FITTED_IMAGES, FITTED_CELLS = 320, 15_000
#: The parts of `EncodedImages` that may lie in files.
ARRAYS = ("grids", "contexts", "aux")
#: The parts that are of each image and may be empty.
LISTS = ("pictures", "frames", "sources")


@dataclass(frozen=True)
class EncodedImages:
    """Images after the features: compute once, explain many times.

    It can be pickled; what lies in files is not copied but opened again.
    """

    grids: Tensor  #: ``(n, d, h, w)``; half precision where they lie in a file
    logits: Tensor  #: ``(n, classes)``, of the grids as they are
    contexts: Tensor | None = None  #: what a vision transformer keeps besides the cells, ``(n, tokens, d)``
    aux: Tensor | None = None  #: auxiliary grids ``(n, e, h', w')``; on the classifier's grid where they lie in a file
    names: Sequence[str] = ()  #: paths or numbers of the images
    pictures: Sequence[Image] = ()  #: the part of each image the model sees; may be empty
    auxiliary: str | None = None  #: name of what computed `aux`
    widths: Sequence[int] = ()  #: channels of the layers side by side in `aux`, if they are still to be centered
    frames: Sequence[Frame | None] = ()  #: which part of each image the model sees, None where that is unknown
    sources: Sequence[Any] = field(default=(), repr=False)  #: the images as they were passed, to be read again
    files: Mapping[str, MemmapRef] = field(default_factory=dict, repr=False)  #: where the tensors that are in files lie

    def __len__(self) -> int:
        return len(self.grids)

    @property
    def cut_grids(self) -> FeatureGrids:
        """The grids with their context, as a head wants them."""
        return FeatureGrids(self.grids, self.contexts)

    def select(self, indices: Sequence[int]) -> EncodedImages:
        """Return some of the images, in memory and in single precision."""
        at = list(indices)
        rows: dict[str, Any] = {n: t[at].float() for n in ARRAYS if (t := getattr(self, n)) is not None}
        names = [self.names[i] if self.names else str(i) for i in at]
        lists: dict[str, Any] = {n: [t[i] for i in at] for n in LISTS if (t := getattr(self, n))}
        return replace(self, **rows, **lists, logits=self.logits[at], names=names, files={})

    def to(self, device: torch.device | str) -> EncodedImages:
        """Return the same on a device."""
        moved = {n: t.to(device) for n in (*ARRAYS, "logits") if (t := getattr(self, n)) is not None}
        return replace(self, **moved)

    def in_memory(self) -> EncodedImages:
        """Return the same without files, for machines that do not have them."""
        return replace(self, files={}, **{n: getattr(self, n).clone() for n in self.files})

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrays, not tensors: an object store shares them among processes.
        plain = {n: t.cpu().numpy() for n in (*ARRAYS, "logits") if (t := getattr(self, n)) is not None}
        return _opened, ({**plain, **self.files}, tuple(self.names), self.auxiliary)

    @classmethod
    def of_files(cls, files: Mapping[str, NDArray[Any]], **fields: Any) -> EncodedImages:
        """Return features that lie in memory-mapped arrays, by name."""
        return _opened({name: MemmapRef.of(array) for name, array in files.items()}, (), **fields)


def _opened(
    arrays: Mapping[str, NDArray[Any] | MemmapRef], names: Sequence[str], auxiliary: str | None
) -> EncodedImages:
    files = {name: array for name, array in arrays.items() if isinstance(array, MemmapRef) and name in ARRAYS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about arrays that cannot be written: they are only read
        opened: dict[str, Any] = {
            n: torch.from_numpy(a.open() if isinstance(a, MemmapRef) else a) for n, a in arrays.items()
        }
    return EncodedImages(**opened, names=names, auxiliary=auxiliary, files=files)


#: What a model is given of an image, the picture of it, and which part of the image that is (None: unknown).
PreparedImage = tuple[Tensor, Any, Frame | None]


def prepared(source: ImageLike, preprocess: Preprocess) -> PreparedImage:
    """Return a model's input, the picture of it, and which part of the image that is."""
    inside = image_of(source)
    if is_prepared(inside):
        if inside.ndim == 3 and tuple(inside.shape[1:]) != preprocess.shape:
            raise ShapeError(
                f"an image tensor has shape {tuple(inside.shape)}, the model was cut for {preprocess.shape}.",
                "Pass images of that size, or tell the explainer another: preprocess=Preprocess(...).",
            )
        return (*preprocess(inside), None)
    image = preprocess.read(inside)
    size = (image.shape[1], image.shape[0]) if isinstance(image, np.ndarray) else image.size
    try:
        frame = Frame(size, preprocess.box(size))
    except SettingError:  # it warps the image: what the model sees is known, where it comes from is not
        frame = None
    tensor, picture = preprocess(image)
    if not isinstance(image, np.ndarray) and ON_WHITE in image.info:
        picture.info[ON_WHITE] = image.info[ON_WHITE]
    return tensor, picture, frame


class Images(Protocol):
    """What is needed of a data set to compute its features."""

    split: str

    def __len__(self) -> int:
        """Return how many images there are."""

    def image(self, index: int) -> Image:
        """Return one image."""

    def fingerprint(self) -> str:
        """Return what changes whenever an image may have changed."""


class Encoder(Protocol):
    """What computes features: a cut network, how it wants its images, and an auxiliary; an `Explainer` is one."""

    cut: Cut
    preprocess: Preprocess
    auxiliary: Auxiliary | None
    device: torch.device
    model_name: str


def encode_dataset(
    data: Images,
    encoder: Encoder,
    *,
    cache: Path | None = None,
    precision: str = "float32",
    track: Track = no_progress,
) -> EncodedImages:
    """Return the features (and auxiliary features) of a data set, from the cache where they are in it.

    Parameters
    ----------
    data : Images
        The images.
    encoder : Encoder
        Which network, cut where, with which auxiliary.
    cache : Path, optional
        Folder of caches; `partswap.utils.store.default_cache` if not given.
    precision : {"float32", "bfloat16"}
        Of the forward pass; bfloat16 takes half the time where the processor has it.
    track : Track
        Shows progress; see `partswap.utils.progress`.
    """
    options: dict[str, Any] = {"cache": cache, "precision": precision, "track": track}
    store = classifier_features(data, encoder, **options)
    arrays, auxiliary = {name: store.array(name) for name in store.names}, encoder.auxiliary
    if auxiliary is not None and _is_grid_of_classifier(auxiliary, encoder):
        arrays["aux"] = arrays["grids"]
    elif auxiliary is not None:
        arrays["aux"] = auxiliary_features(data, auxiliary, encoder.preprocess, encoder.cut.grid, **options)
    arrays["logits"] = np.array(arrays["logits"])
    return EncodedImages.of_files(arrays, auxiliary=auxiliary.name if auxiliary else None)


def _is_grid_of_classifier(auxiliary: Auxiliary, encoder: Encoder) -> bool:
    """Tell whether an auxiliary's grids are those of the classifier itself, at the layer it is cut at."""
    trunk, cut = auxiliary.model, encoder.cut
    if not isinstance(trunk, LayerExtractor) or trunk.layer != cut.layer or auxiliary.preprocess != encoder.preprocess:
        return False
    of_cut, of_auxiliary = ({p.data_ptr() for p in m.parameters()} for m in (cut.features, trunk))
    return bool(of_cut) and of_cut <= of_auxiliary


def classifier_features(
    data: Images,
    encoder: Encoder,
    *,
    cache: Path | None = None,
    precision: str = "float32",
    track: Track = no_progress,
    batch: int = BATCH,
) -> Store:
    """Return the finished store of a classifier's grids and logits."""
    cut = encoder.cut
    key = {
        "what": "classifier features",
        "data": data.fingerprint(),
        "split": data.split,
        "features": model_fingerprint(cut.features),
        "head": model_fingerprint(cut.head),
        "layer": cut.layer,
        "preprocess": encoder.preprocess.key(),
        "precision": precision,
        "batch": batch,
    }
    store = Store(cache or default_cache(), f"features-{encoder.model_name}", key, len(data))

    def compute(inputs: Tensor) -> dict[str, Tensor]:
        with autocast(precision, encoder.device):
            grids = cut.features(inputs.to(encoder.device))
        # Half precision is what is stored, so the logits are those of what is stored.
        out = halved_grids(grids, "the classifier")
        stored = FeatureGrids(*(out[name].float() for name in ("grids", "contexts") if name in out))
        return {**out, "logits": cut.head(stored).float()}

    fill_store(store, lambda i: encoder.preprocess(data.image(i))[0], compute, f"features {data.split}", track, batch)
    return store


def auxiliary_features(
    data: Images,
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
    device = device_of(auxiliary.model)

    def compute(inputs: Tensor) -> dict[str, Tensor]:
        with autocast(precision, device):
            grids = auxiliary.forward(inputs.to(device))
        return {"grids": halved(resize_grid(grids.float(), grid), f"the auxiliary {auxiliary.name}")}

    fill_store(store, auxiliary.reader(data, preprocess), compute, f"{auxiliary.name} {data.split}", track, batch)
    return store.array("grids")


def fitted_auxiliary(
    data: Images,
    auxiliary: Auxiliary,
    preprocess: Preprocess,
    *,
    components: int = COMPONENTS,
    cache: Path | None = None,
    track: Track = no_progress,
) -> Auxiliary:
    """Return an auxiliary of several layers centered and reduced, fitted on some of a data set's images.

    What was fitted is kept in the cache: another number of threads would give other last bits. One that is fitted
    already, or has one layer, is returned as it is.
    """
    features = auxiliary.model
    if not isinstance(features, MultiLayerFeatures) or features.is_fitted:
        return auxiliary
    key = {
        "what": "fitted layers",
        "data": data.fingerprint(),
        "split": data.split,
        "layers": model_fingerprint(features.trunks),
        "preprocess": [preprocess.key(), auxiliary.preprocess.key()],
        "components": components,
    }
    folder = (cache or default_cache()) / f"fitted-{digest_of(key)}"
    state = folder / "layers.safetensors"
    if not state.is_file():
        chosen = range(0, len(data), -(-len(data) // FITTED_IMAGES))
        chunks = [chosen[start : start + BATCH] for start in range(0, len(chosen), BATCH)]
        with track(f"{auxiliary.name} fitted", len(chosen)) as advance, torch.no_grad():

            def grids() -> Iterator[Tensor]:
                for inputs in prefetch(chunks, auxiliary.reader(data, preprocess)):
                    yield features.raw(inputs.to(device_of(features))).cpu()
                    advance(len(inputs))

            fitted = features.fitted(sample_cells(grids(), FITTED_CELLS, len(chosen)), components)
        write_tensors(state, {name: getattr(fitted, name) for name in ("mean", "basis", "offset")}, place="cache")
    tensors = read_weights(state)
    return replace(auxiliary, model=features.with_state(tensors["mean"], tensors["basis"], tensors["offset"]))


def halved_grids(grids: FeatureGrids, who: str) -> dict[str, Tensor]:
    """Return what a store keeps of grids: ``grids``, and ``contexts`` if there are any, in half precision."""
    tensors = {"grids": grids.values, "contexts": grids.context}
    return {name: halved(values, who) for name, values in tensors.items() if values is not None}


def fill_store(
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
        for inputs in tracked(prefetch(chunks, read), title, track, total=store.count, done=store.done, size=len):
            arrays = compute(inputs)
            store.append(**{name: rows.cpu().numpy() for name, rows in arrays.items()})


def prefetch(chunks: Sequence[Sequence[int]], read: Callable[[int], Tensor]) -> Iterator[Tensor]:
    """Yield batches of inputs, the next one being read on threads while the caller works."""
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        begun = ([pool.submit(read, i) for i in chunk] for chunk in chunks)
        following = next(begun, None)
        while following is not None:
            futures, following = following, next(begun, None)
            yield _stack([future.result() for future in futures])


def _stack(inputs: list[Tensor]) -> Tensor:
    return stacked(inputs).contiguous(memory_format=torch.channels_last)


def halved(values: Tensor, who: str) -> Tensor:
    """Return values in half precision; those that do not fit are an error and not infinity."""
    half = values.half()
    if not bool(torch.isfinite(half).all()):
        raise NonFiniteError(
            f"features of {who} are not finite in half precision (largest {float(values.abs().max()):.3g}).",
            "Check its weights and the images' normalization; or cut after a normalization layer.",
        )
    return half
