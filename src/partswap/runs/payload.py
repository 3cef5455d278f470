"""What a process needs to explain a part of a run: features, network and tasks, ready to be sent to it."""

from __future__ import annotations

import copy
import io
import pickle
import uuid
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import IO, TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from partswap import _vision
from partswap.errors import PartswapError
from partswap.explainer.explainer import Explainer
from partswap.explainer.notes import PartswapWarning
from partswap.features.encode import EncodedImages
from partswap.inputs.preprocess import Preprocess
from partswap.results.counterfactual import Counterfactual
from partswap.runs.sources import SourceFile, importable, provide, sources_of
from partswap.runs.tasks import Task, explain_task
from partswap.search import Method
from partswap.search.methods.goyal import Goyal
from partswap.search.problem import CellParts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from partswap.runs.context import RunContext


@dataclass(frozen=True)
class Shard:
    """A unit of work: the tasks ``start`` to ``stop`` under one method."""

    method: str
    number: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class FrozenNetwork:
    """A network as plain bytes and arrays, so that an object store can share its weights.

    `sources` are the files in which a user defined its classes, which other processes may not be able to import.
    """

    skeleton: bytes
    arrays: tuple[NDArray[Any], ...]
    sources: tuple[SourceFile, ...] = ()

    @classmethod
    def of(cls, network: nn.Module) -> FrozenNetwork:
        """Take a network apart."""
        file = io.BytesIO()
        pickler = _Freezer(file)
        try:
            with importable({type(module) for module in network.modules()}):
                pickler.dump(network)
                sources = sources_of(pickler.modules)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise PartswapError(
                f"the classifier {type(network).__name__} cannot be sent to other processes ({error}).",
                "Define its classes and functions in a module, not inside a function.",
            ) from error
        return cls(file.getvalue(), tuple(pickler.arrays), sources)

    def build(self) -> nn.Module:
        """Put it together again."""
        provide(self.sources)
        try:
            network: nn.Module = _Thawer(io.BytesIO(self.skeleton), self.arrays).load()
        except (ImportError, AttributeError) as error:
            raise PartswapError(
                f"a worker process cannot import what the classifier is made of ({error}).",
                "Install it on every machine; classes must be defined in a file or package, not in the script itself.",
            ) from error
        return network.eval()


class _Freezer(pickle.Pickler):
    """Pickles everything but tensors, which are set aside as arrays."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=5)
        self.arrays: list[NDArray[Any]] = []
        #: Where the classes and functions it is made of were defined.
        self.modules: set[str] = set()
        self._seen: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> tuple[int, str, tuple[int, ...], bool, bool] | None:
        if not isinstance(obj, Tensor):
            if isinstance(obj, type | FunctionType):
                self.modules.add(obj.__module__)
            return None
        if id(obj) not in self._seen:
            self._seen[id(obj)] = len(self.arrays)
            # Bytes, since numpy has no bfloat16.
            self.arrays.append(obj.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        kind = str(obj.dtype).removeprefix("torch.")
        return self._seen[id(obj)], kind, tuple(obj.shape), isinstance(obj, nn.Parameter), obj.requires_grad


class _Thawer(_vision.Unpickler):
    def __init__(self, file: IO[bytes], arrays: Sequence[NDArray[Any]]) -> None:
        super().__init__(file)
        self._arrays = arrays
        self._made: dict[int, Tensor] = {}

    def persistent_load(self, pid: Any) -> Tensor:
        index, kind, shape, parameter, gradient = pid
        if index not in self._made:
            # Copied into memory that torch aligns: how arrays are aligned may change the last bit of a product.
            plain = torch.empty(shape, dtype=getattr(torch, kind))
            plain.reshape(-1).view(torch.uint8).numpy()[:] = self._arrays[index]
            self._made[index] = nn.Parameter(plain, gradient) if parameter else plain.requires_grad_(gradient)
        return self._made[index]


@dataclass(frozen=True)
class WorkerPayload:
    """Features of the split, network, tasks and methods of a run; it can be pickled.

    `parts` is what the cells of each image hold, if a method wants to know; `device` is where explainers compute;
    `pictures` is what the model sees of each image, as PNG, if explanations are checked in pixels.
    """

    network: FrozenNetwork
    layer: str
    preprocess: Preprocess
    classes: Sequence[str]
    features: EncodedImages
    tasks: Sequence[Task]
    methods: Mapping[str, Method]
    parts: Mapping[int, CellParts] = field(default_factory=dict)
    device: str = "cpu"
    pictures: Mapping[int, bytes] | None = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(
        cls,
        bench: RunContext,
        tasks: Sequence[Task],
        methods: Mapping[str, Method],
        device: str = "cpu",
        *,
        pixel: bool = False,
    ) -> WorkerPayload:
        """Return the payload of a bench, whose features are computed if they are not cached."""
        explainer = bench.explainer
        parts: dict[int, CellParts] = {}
        images = sorted({image for task in tasks for image in (task.query, *task.distractors)})
        if any(method.wants_parts for method in methods.values()):
            parts = {image: bench.facts.parts(image) for image in images}
        canvas = explainer.preprocess.crop
        pictures = {image: _png(canvas(bench.data.image(image))) for image in images} if pixel else None
        return cls(
            FrozenNetwork.of(_bare(bench.classifier.model)),
            explainer.cut.layer,
            explainer.preprocess.declared(),  # images are prepared already, by a function that may be anything
            list(bench.classifier.classes),
            bench.encodings,
            list(tasks),
            dict(methods),
            parts,
            device,
            pictures,
        )


def _png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.convert("RGB").save(file, "PNG", compress_level=1)
    return file.getvalue()


def _bare(network: nn.Module) -> nn.Module:
    """Return the same network without the preprocessing it may carry, which may be a function of any kind."""
    bare = copy.copy(network)
    bare.__dict__.pop("preprocess", None)
    return bare


class WorkerState:
    """A payload in the process that explains it; the network is built once."""

    def __init__(self, payload: WorkerPayload) -> None:
        self.payload = payload
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PartswapWarning)  # said already where the run was begun
            self.explainer = Explainer(
                payload.network.build().to(payload.device),
                payload.layer,
                auxiliary=None,  # its grids are among the features
                preprocess=payload.preprocess,
                class_names=payload.classes,
            )
        if payload.tasks:
            # A head is checked on the first query it is used for: make that the same one in every process.
            self._explain(payload.tasks[0], Goyal(max_edits=1))

    def explain(self, shard: Shard) -> list[Counterfactual]:
        """Return the counterfactuals of a shard, in order."""
        method = self.payload.methods[shard.method]
        return [self._explain(task, method) for task in self.payload.tasks[shard.start : shard.stop]]

    def _explain(self, task: Task, method: Method) -> Counterfactual:
        payload = self.payload
        pictures = None if payload.pictures is None else self._picture
        return explain_task(self.explainer, task, method, payload.features, payload.parts.__getitem__, pictures)

    def _picture(self, index: int) -> Image.Image:
        assert self.payload.pictures is not None
        return Image.open(io.BytesIO(self.payload.pictures[index]))


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: sums then have one order, and the result does not depend on who else works."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
