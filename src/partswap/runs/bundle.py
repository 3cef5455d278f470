"""What a process needs to explain a part of a run: features, network and tasks, ready to be sent to it."""

from __future__ import annotations

import io
import pickle
import uuid
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from partswap import _vision
from partswap.counterfactual import Counterfactual
from partswap.errors import PartswapError
from partswap.explainer import Encoded, Explainer
from partswap.images import Preprocess
from partswap.runs.tasks import Task, explain_task
from partswap.search import Method
from partswap.search.methods.base import CellParts
from partswap.search.methods.goyal import Goyal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from partswap.runs.workbench import Workbench


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
class Mapped:
    """An array in a file, to be mapped by whoever needs it."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, array: NDArray[Any]) -> Mapped | NDArray[Any]:
        """Return where a memory-mapped array lies, or the array itself if it is in memory."""
        if isinstance(array, np.memmap) and array.filename is not None:
            return cls(Path(array.filename), array.dtype.str, array.shape, array.offset)
        return array

    def open(self) -> NDArray[Any]:
        """Return the array, read-only."""
        return np.memmap(self.path, np.dtype(self.dtype), "r", self.offset, self.shape)


@dataclass(frozen=True)
class FrozenNetwork:
    """A network as plain bytes and arrays, so that an object store can share its weights."""

    skeleton: bytes
    arrays: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, network: nn.Module) -> FrozenNetwork:
        """Take a network apart."""
        file = io.BytesIO()
        pickler = _Freezer(file)
        try:
            pickler.dump(network)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise PartswapError(
                f"the classifier {type(network).__name__} cannot be sent to other processes ({error}).",
                "Define its classes and functions in a module, not inside a function.",
            ) from error
        return cls(file.getvalue(), tuple(pickler.arrays))

    def build(self) -> nn.Module:
        """Put it together again."""
        network: nn.Module = _Thawer(io.BytesIO(self.skeleton), self.arrays).load()
        return network.eval()


class _Freezer(pickle.Pickler):
    """Pickles everything but tensors, which are set aside as arrays."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=5)
        self.arrays: list[NDArray[Any]] = []
        self._seen: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> tuple[int, str, tuple[int, ...], bool, bool] | None:
        if not isinstance(obj, Tensor):
            return None
        if id(obj) not in self._seen:
            self._seen[id(obj)] = len(self.arrays)
            # Bytes, since numpy has no bfloat16.
            self.arrays.append(obj.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        kind = str(obj.dtype).removeprefix("torch.")
        return self._seen[id(obj)], kind, tuple(obj.shape), isinstance(obj, nn.Parameter), obj.requires_grad


class _Thawer(pickle.Unpickler):
    def __init__(self, file: IO[bytes], arrays: Sequence[NDArray[Any]]) -> None:
        super().__init__(file)
        self._arrays = arrays
        self._made: dict[int, Tensor] = {}

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Import torchvision and timm the way that works beside any torch."""
        package = module_name.partition(".")[0]
        if package in ("torchvision", "timm"):
            getattr(_vision, package)()
        return super().find_class(module_name, global_name)

    def persistent_load(self, pid: Any) -> Tensor:
        index, kind, shape, parameter, gradient = pid
        if index not in self._made:
            # Copied into memory that torch aligns: how arrays are aligned may change the last bit of a product.
            plain = torch.empty(shape, dtype=getattr(torch, kind))
            plain.reshape(-1).view(torch.uint8).numpy()[:] = self._arrays[index]
            self._made[index] = nn.Parameter(plain, gradient) if parameter else plain.requires_grad_(gradient)
        return self._made[index]


@dataclass(frozen=True)
class Bundle:
    """Features, network, tasks and methods of a run; it can be pickled.

    Attributes
    ----------
    network : FrozenNetwork
        The classifier.
    layer : str
        Where it is cut.
    preprocess : Preprocess
        What it wants its images to be like.
    classes : sequence of str
        Names.
    auxiliary : str or None
        Name of the auxiliary, for records.
    arrays : Mapping
        ``grids``, and ``contexts`` and ``aux`` where there are any: in memory, or files to be mapped.
    tasks : sequence of Task
        What to explain.
    methods : Mapping[str, Method]
        How.
    device : str
        Where whoever explains computes.
    parts : Mapping[int, CellParts]
        The parts the cells of an image hold, if a method wants to know.
    """

    network: FrozenNetwork
    layer: str
    preprocess: Preprocess
    classes: Sequence[str]
    auxiliary: str | None
    arrays: Mapping[str, Mapped | NDArray[Any]]
    tasks: Sequence[Task]
    methods: Mapping[str, Method]
    parts: Mapping[int, CellParts] = field(default_factory=dict)
    device: str = "cpu"
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(cls, bench: Workbench, tasks: Sequence[Task], methods: Mapping[str, Method]) -> Bundle:
        """Return the bundle of a bench, whose features are computed if they are not there."""
        encodings, explainer = bench.encodings, bench.explainer
        arrays = {"grids": encodings.grids, "contexts": encodings.contexts, "aux": encodings.aux}
        parts: dict[int, CellParts] = {}
        if any(method.wants_parts for method in methods.values()):
            images = {image for task in tasks for image in (task.query, *task.distractors)}
            parts = {image: bench.facts.parts(image) for image in sorted(images)}
        return cls(
            FrozenNetwork.of(bench.classifier.model),
            explainer.cut.layer,
            explainer.preprocess,
            list(bench.classifier.classes),
            explainer.auxiliary.name if explainer.auxiliary else None,
            {name: Mapped.of(array) for name, array in arrays.items() if array is not None},
            list(tasks),
            dict(methods),
            parts,
        )

    def in_memory(self) -> Bundle:
        """Return the same with arrays instead of files, for machines that do not have these files."""
        arrays = {name: np.asarray(a.open() if isinstance(a, Mapped) else a) for name, a in self.arrays.items()}
        return replace(self, arrays=arrays)


class Session:
    """A bundle at work in one process: the network is built and looked at once."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.arrays = {name: a.open() if isinstance(a, Mapped) else a for name, a in bundle.arrays.items()}
        self.explainer = Explainer(
            bundle.network.build().to(bundle.device),
            bundle.layer,
            preprocess=bundle.preprocess,
            class_names=bundle.classes,
        )
        if bundle.tasks:
            # A head is checked on the first query it is used for: let it be the same one in every process.
            self._explain(bundle.tasks[0], Goyal(max_edits=1))

    def explain(self, shard: Shard) -> list[Counterfactual]:
        """Return the counterfactuals of a shard, in order."""
        method = self.bundle.methods[shard.method]
        return [self._explain(task, method) for task in self.bundle.tasks[shard.start : shard.stop]]

    def _explain(self, task: Task, method: Method) -> Counterfactual:
        found = explain_task(self.explainer, task, method, self._select, self.bundle.parts.__getitem__)
        return replace(found, source={**found.source, "auxiliary": self.bundle.auxiliary})

    def _select(self, indices: Sequence[int]) -> Encoded:
        def rows(name: str) -> Tensor | None:
            array = self.arrays.get(name)
            # To single precision by torch, not numpy: in memory that torch aligns.
            if array is None:
                return None
            return torch.from_numpy(np.stack([array[i] for i in indices])).float().to(self.bundle.device)

        grids = rows("grids")
        if grids is None:
            raise PartswapError("there are no features.", "Make the bundle with Bundle.of.")
        names = [str(i) for i in indices]
        return Encoded(grids, rows("contexts"), rows("aux"), torch.zeros(len(indices), 0), [], names)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: sums then have one order, and the result does not depend on who else works."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
