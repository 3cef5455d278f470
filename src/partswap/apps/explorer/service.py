"""What the explorer keeps: features, and per image and class the problem that all positions of the sliders share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, Generic, TypeVar

from PIL import Image

from partswap.apps.explorer.examples import Example, candidate_images, choose_examples
from partswap.apps.explorer.familiar import Familiar
from partswap.apps.explorer.memory import Heap, storages
from partswap.apps.explorer.uploads import Uploads
from partswap.apps.explorer.view import MOST_BEAM, MOST_DISTRACTORS, View
from partswap.data.on_grid import CellFacts
from partswap.data.pairs import draw_distractors
from partswap.errors import ClassIndexError, ImageError, NoDistractorsError
from partswap.explainer.target import choose_target
from partswap.features.encode import EncodedImages
from partswap.metrics import Evidence
from partswap.results.counterfactual import Counterfactual, Pictures, Provenance
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext
from partswap.search import METHODS, Method
from partswap.search.apply import apply_edits
from partswap.search.cache import SearchCache
from partswap.search.problem import Problem
from partswap.search.settings import changed
from partswap.utils.cancel import CancelledError, CancelToken

#: Problems, found counterfactuals, and images that were encoded here, that are kept.
PROBLEMS, RESULTS, ENCODED = 4, 400, 24
#: What is known of an image without annotations.
UNKNOWN = CellFacts(None, None, None)
#: Memory for searches unless another is given, and the most of it for an evaluator: as in the library.
MEMORY_MB, EVALUATOR_MB = 2048, 1024

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The values that were asked for last, at most so many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made if it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        found = make()
        with self._lock:
            self._values[key] = found
            while len(self._values) > self.most:
                self._values.popitem(last=False)
        return found

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> list[Hashable]:
        """Return the keys, the one asked for last at the end."""
        with self._lock:
            return list(self._values)

    def drop(self, key: Hashable) -> None:
        """Forget a value."""
        with self._lock:
            self._values.pop(key, None)


@dataclass(frozen=True)
class QueryImage:
    """The image that is looked at."""

    encoded: EncodedImages
    label: int | None  #: its true class, if that is known
    name: str
    number: int  #: what distractors are drawn by


@dataclass
class ExplorerService:
    """Data, classifier and auxiliary, with everything that is computed once."""

    bench: RunContext
    config: RunConfig
    uploads: Uploads
    #: For searches: half of it for the one under way, half for what is kept of earlier ones.
    memory_mb: float = MEMORY_MB
    #: Stops the search that is under way.
    cancel: CancelToken = field(default_factory=CancelToken)

    def __post_init__(self) -> None:
        self._problems: Kept[dict[int, Problem]] = Kept(PROBLEMS)
        self._heap = Heap()
        self._sizes: dict[Hashable, int] = {}  # bytes of the problems that are kept
        self._results: Kept[Counterfactual] = Kept(RESULTS)
        self._encoded: Kept[EncodedImages] = Kept(ENCODED)
        self.features = self.bench.encodings
        self.explainer = self.bench.explainer
        self.data = self.bench.data
        self.labels = self.data.labels()
        self.said = self.features.logits.argmax(1).numpy()
        self.right = self.said == self.labels

    @cached_property
    def donors_of(self) -> dict[int, list[int]]:
        """The images of every class that the model gets right."""
        found: dict[int, list[int]] = {}
        for index in self.right.nonzero()[0].tolist():
            found.setdefault(int(self.labels[index]), []).append(index)
        return found

    @cached_property
    def examples(self) -> list[Example]:
        """What the first page offers; to choose them takes a few explanations."""

        def explained(view: View) -> tuple[View, Counterfactual, Evidence | None]:
            settled = self.settled(view)
            cf = self.checked(settled)
            return settled, cf, self.evidence(settled, cf)

        candidates = candidate_images(self.features.logits, self.labels, self.donors_of)
        return choose_examples(candidates, explained, self.bench.track)

    @property
    def first(self) -> int:
        """The image shown to those who did not choose one."""
        return next((example.view.image for example in self.examples if example.view.image is not None), 0)

    def name(self, index: int) -> str:
        """Return the name of a class as people read it."""
        return self.explainer.name(index).replace("_", " ")

    def query(self, view: View) -> QueryImage:
        """Return the image of a view, with its features."""
        if view.upload is not None:
            upload = view.upload
            encoded = self._encoded.get(upload, lambda: self._encode(upload))
            return QueryImage(replace(encoded, names=["dropped image"]), None, "your image", len(self.labels))
        index = self.first if view.image is None else view.image
        if not 0 <= index < len(self.labels):
            raise ImageError(f"there is no image {index}.", f"The data set has {len(self.labels)} of them.")
        encoded = replace(self.features.select([index]), names=[self.data.image_name(index)])
        return QueryImage(encoded, int(self.labels[index]), self.data.image_name(index), index)

    def _encode(self, upload: str) -> EncodedImages:
        encoded = self.explainer.encode([self.uploads.open(upload)])
        return replace(encoded, pictures=[], sources=[])  # they are in a file

    def settled(self, view: View) -> View:
        """Return a view that says which image and which class, the usual ones where it did not."""
        if view.upload is None and view.image is None:
            view = view.with_(image=self.first)
        query = self.query(view)
        said = int(query.encoded.logits[0].argmax())
        if view.target is None:
            target, _ = choose_target(query.encoded.logits[0].float(), None, query.label, None, None)
            order = query.encoded.logits[0].argsort(descending=True).tolist()
            target = next((k for k in (target, *order) if k != said and self.donors_of.get(k)), target)
            view = view.with_(target=target)
        classes = len(query.encoded.logits[0])
        target = view.target if view.target is not None else -1
        if not 0 <= target < classes:
            raise ClassIndexError(f"there is no class {target}.", f"The model has {classes}.")
        if target == said:
            raise ClassIndexError(f"the model already says {self.name(said)} of this image.", "Choose another class.")
        if not self.donors_of.get(target):
            raise NoDistractorsError(
                f"the model gets no image of {self.name(target)} right, so there is nothing to take regions from.",
                "Choose another class.",
            )
        return view

    def guesses(self, view: View, count: int = 6) -> list[tuple[int, float]]:
        """Return the classes the model thinks of first, with their probabilities."""
        best = self.query(view).encoded.logits[0].float().softmax(0)
        found = best.topk(min(count, len(best)))
        return [(int(k), float(p)) for k, p in zip(found.indices, found.values, strict=True)]

    def drawn(self, view: View) -> list[int]:
        """Return the distractors of a view, as many as there are at most."""
        assert view.target is not None
        right = self.donors_of.get(view.target, [])
        return draw_distractors(right, MOST_DISTRACTORS, seed=self.config.seed, query=self.query(view).number)

    def method(self, view: View) -> Method:
        """Return the method of a view with those of its settings that it has."""
        resolve = self.explainer.patient if view.edits is None else self.explainer.resolve_method
        made = resolve(view.method)
        told: dict[str, Any] = {"lam": view.lam, "beam": view.beam, "max_edits": view.edits}
        told["memory_mb"] = self.evaluator_mb
        told |= {} if view.tau is None else {"tau": view.tau}
        return changed(made, **{name: value for name, value in told.items() if made.takes(name)})

    def count(self, view: View) -> int:
        """Return how many distractors a view uses: some methods are made for one."""
        there = len(self.drawn(view))
        if view.swaps is not None:  # swaps by hand may take from any
            return there
        return min(view.distractors, METHODS.get(view.method).distractors or there, there)

    def problem(self, view: View) -> Problem:
        """Return the problem of a view: whatever the other sliders say, it is the same one."""
        count, drawn = self.count(view), self.drawn(view)
        # With fewer distractors it is a part of the problem with all of them, which knows most of what is asked.
        family = self._problems.get((view.key, view.target), lambda: {len(drawn): self._pose(view, drawn)})
        if count not in family:
            family[len(drawn)].evaluator(self.explainer.plan, self.evaluator_mb)  # whose results both share
            family[count] = family[len(drawn)].with_first_distractors(count, self._told(view, drawn[:count]))
        return family[count]

    @property
    def evaluator_mb(self) -> float:
        """Memory of the search that is under way."""
        return min(EVALUATOR_MB, self.memory_mb / 2)

    def kept_bytes(self) -> int:
        """Return how much memory the problems take that are kept."""
        return sum(self._sizes.values())

    def _bound(self, view: View) -> None:
        """Measure a problem that was worked on; forget those asked for longest ago until the others fit into memory."""
        latest, shared = (view.key, view.target), storages(vars(self.explainer.plan))
        sizes = storages(self._problems.get(latest, dict))
        self._sizes[latest] = sum(size for address, size in sizes.items() if address not in shared)
        keys = self._problems.keys()
        self._sizes = {key: self._sizes[key] for key in keys if key in self._sizes}
        most = (self.memory_mb - self.evaluator_mb) * 2**20
        for key in keys:
            if self.kept_bytes() <= most:
                break
            self._problems.drop(key)
            self._sizes.pop(key, None)
        self._heap.trim(most / 4)

    def _told(self, view: View, drawn: Sequence[int]) -> Provenance:
        told = {
            "query": self.query(view).name,
            "distractors": [self.data.image_name(k) for k in drawn],
            "model": self.explainer.model_name,
            "layer": self.explainer.cut.layer,
            "auxiliary": self.features.auxiliary,
        }
        return Provenance(told, self.explainer.class_names or (), None)

    def _pose(self, view: View, drawn: Sequence[int]) -> Problem:
        assert view.target is not None
        device = self.explainer.device
        query, others = self.query(view).encoded.to(device), self.features.select(drawn).to(device)
        return Problem.of(
            query.cut_grids,
            others.grids,
            view.target,
            query_aux=None if query.aux is None else query.aux[0],
            distractor_aux=others.aux,
            aux_widths=others.widths,
            auxiliary_tau=None if self.explainer.auxiliary is None else self.explainer.auxiliary.tau,
            about=self._told(view, drawn),
            cache=SearchCache(),
        )

    def solve(self, view: View) -> Counterfactual:
        """Return the counterfactual of a view: found, or made of one's own swaps."""
        if view.swaps is not None:
            return apply_edits(
                self.explainer.plan, self.problem(view), view.swaps, memory_mb=self.evaluator_mb, cancel=self.cancel
            )
        method, count = self.method(view), self.count(view)

        def search() -> Counterfactual:
            try:
                return method.solve(self.explainer.plan, self.problem(view), self.cancel)
            finally:
                self._bound(view)

        return self._results.get((view.key, view.target, count, view.method, repr(method)), search)

    def solve_within(self, view: View, seconds: float) -> Counterfactual | None:
        """Return the counterfactual of a view, None if that takes longer; what was computed till then is cached."""
        try:
            with self.cancel.within(seconds):
                return self.solve(view)
        except CancelledError:
            self.cancel.check()  # perhaps nobody waits for it at all
            return None

    def checked(self, view: View) -> Counterfactual:
        """Return the counterfactual of a view with its pixel check and its images."""
        cf = self.pictured(view, self.solve(view))
        return self.explainer.pixel_check(cf)

    def evidence(self, view: View, cf: Counterfactual) -> Evidence:
        """Return what the cells of an explanation's images hold; of images that no edit uses, and uploads, nothing."""
        facts, used = self.bench.facts, {edit.distractor_image for edit in cf.edits}
        query = UNKNOWN if view.image is None else facts[view.image]
        donors = self.drawn(view)[: cf.distractors]
        return Evidence(query, [facts[donor] if k in used else UNKNOWN for k, donor in enumerate(donors)])

    @cached_property
    def _familiar(self) -> Familiar:
        return Familiar(self.features)

    def is_strange(self, view: View) -> bool:
        """Tell whether the image of a view is of another kind than the data set's."""
        return view.upload is not None and self._familiar.is_strange(self.query(view).encoded.grids)

    def nearby(self, view: View, slider: str = "") -> Iterator[View]:
        """Yield where the sliders may be moved next, far positions early: they cost most.

        They come in turns; if it is known which slider the hand is on, that one's come first.
        """
        if view.swaps is not None:
            return
        made, there = METHODS.get(view.method)(), len(self.drawn(view))
        lam = _neighbouring_values(round(view.lam * 20), range(41), (-4, 8, 2, -8, 20, -2, 32, 1, -1, 14, 4))
        tau = [k for k in (10, 5, 20, 15, 25, 30, 3) if k != round((view.tau or 0) * 100)]
        beam = _neighbouring_values(view.beam, range(1, MOST_BEAM + 1), (8, -4, -7, 4, -2, -1, 1, 2))
        count = _neighbouring_values(min(view.distractors, there), range(1, there + 1), (-10, -15, -5, -2, -1, 1))
        edits = range(1, 8)
        turns = {
            "lam": [view.with_(lam=k / 20) for k in lam] if made.takes("lam") else [],
            "beam": [view.with_(beam=k) for k in beam] if made.takes("beam") else [],
            "n": [view.with_(distractors=k) for k in count] if made.distractors is None else [],
            "edits": [view.with_(edits=k) for k in edits] if made.takes("max_edits") else [],
            "tau": [view.with_(tau=k / 100) for k in tau] if made.takes("tau") else [],
        }
        yield from turns.pop(slider, [])
        for turn in zip_longest(*turns.values()):
            yield from (one for one in turn if one is not None)

    def image(self, key: str) -> Image.Image:
        """Return an image as it is: a number of the data set, or a digest of what was dropped."""
        if key.isascii() and key.isdecimal():
            index = int(key[:9])
            if index >= len(self.labels):
                raise ImageError(f"there is no image {index}.", f"The data set has {len(self.labels)} of them.")
            return self.data.image(index).convert("RGB")
        return self.uploads.open(key)

    def pictured(self, view: View, cf: Counterfactual) -> Counterfactual:
        """Return a counterfactual with its images; those that no edit uses are not read, and blank."""
        used = {edit.distractor_image for edit in cf.edits}
        donors = [str(k) if number in used else None for number, k in enumerate(self.drawn(view)[: cf.distractors])]
        blank = Image.new("RGB", self.explainer.preprocess.shape[::-1])
        sources = [blank if key is None else self.image(key) for key in (view.key, *donors)]
        canvases = [image if image is blank else self.explainer.preprocess.canvas(image) for image in sources]
        return replace(cf, pictures=Pictures(canvases[0], canvases[1:], sources, self.explainer.preprocess))


def _neighbouring_values(value: int, known: range, steps: Sequence[int]) -> list[int]:
    """Return values some steps away, as far as they are known."""
    return [value + step for step in steps if value + step in known]
