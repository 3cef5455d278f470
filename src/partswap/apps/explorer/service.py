"""Everything the explorer computes, with its caches: per image and class, one problem serves all slider positions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from cachetools import LRUCache, cachedmethod
from PIL import Image

from partswap.apps.explorer.examples import Example, candidate_images, choose_examples
from partswap.apps.explorer.memory import Heap, storages
from partswap.apps.explorer.outliers import OutlierDetector
from partswap.apps.explorer.uploads import Uploads
from partswap.apps.explorer.view import MOST_BEAM, MOST_DISTRACTORS, View
from partswap.data.on_grid import CellFacts
from partswap.data.pairs import draw_distractors
from partswap.errors import ClassIndexError, ImageError, NoDistractorsError
from partswap.explainer.target import choose_target
from partswap.features.encode import EncodedImages
from partswap.metrics import Evidence
from partswap.results.counterfactual import Counterfactual, Pictures
from partswap.results.provenance import Provenance, ResultContext
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext
from partswap.search import METHODS, Method
from partswap.search.apply import apply_edits
from partswap.search.cache import SearchCache
from partswap.search.problem import Problem
from partswap.search.settings import SearchSettings, changed
from partswap.utils.cancel import CancelledError, CancelToken

#: Most entries of the caches: problems, counterfactuals, encodings of dropped images.
PROBLEMS, RESULTS, ENCODED = 4, 400, 24
#: The annotations of an image that has none.
NO_FACTS = CellFacts(None, None, None)
#: Memory for searches unless another limit is given.
MEMORY_MB = 2048


@dataclass(frozen=True)
class QueryImage:
    """The image that is explained."""

    encoded: EncodedImages
    label: int | None  #: its true class; None for a dropped image
    name: str
    number: int  #: seed of the draw of its distractors


@dataclass
class ExplorerService:
    """Explains the views of one data set, classifier and auxiliary; what several views need is computed once."""

    context: RunContext
    config: RunConfig
    uploads: Uploads
    #: For searches: half of it for the one under way, half for the cache of problems.
    memory_mb: float = MEMORY_MB
    #: Stops the search that is under way.
    cancel: CancelToken = field(default_factory=CancelToken)

    def __post_init__(self) -> None:
        # By image and target, then by the number of distractors.
        self._problems: LRUCache[Hashable, dict[int, Problem]] = LRUCache(PROBLEMS)
        self._sizes: dict[Hashable, int] = {}  # bytes of the cached problems
        self._results: LRUCache[Hashable, Counterfactual] = LRUCache(RESULTS)
        self._encodings: LRUCache[Hashable, EncodedImages] = LRUCache(ENCODED)
        self._heap = Heap()
        self.features = self.context.encodings
        self.explainer = self.context.explainer
        self.data = self.context.data
        self.labels = self.data.labels()
        self.predicted = self.features.logits.argmax(1).numpy()
        self.correct = self.predicted == self.labels

    @cached_property
    def correct_images(self) -> dict[int, list[int]]:
        """The images of every class that the model gets right, by class."""
        images: dict[int, list[int]] = {}
        for index in self.correct.nonzero()[0].tolist():
            images.setdefault(int(self.labels[index]), []).append(index)
        return images

    @cached_property
    def examples(self) -> list[Example]:
        """The examples that the first page offers; choosing them takes a few explanations."""

        def explained(view: View) -> tuple[View, Counterfactual, Evidence | None]:
            view = self.with_defaults(view)
            cf = self.with_pixel_check(view)
            return view, cf, self.evidence(view, cf)

        candidates = candidate_images(self.features.logits, self.labels, self.correct_images)
        return choose_examples(candidates, explained, self.context.track)

    @property
    def first_image(self) -> int:
        """The image of a view that names none."""
        return next((example.view.image for example in self.examples if example.view.image is not None), 0)

    def class_name(self, index: int) -> str:
        """Return the name of a class as people read it."""
        return self.explainer.class_name(index).replace("_", " ")

    def query(self, view: View) -> QueryImage:
        """Return the image of a view, with its features."""
        if view.upload is not None:
            return QueryImage(self._encode(view.upload), None, "your image", len(self.labels))
        index = self.first_image if view.image is None else view.image
        if not 0 <= index < len(self.labels):
            raise ImageError(f"there is no image {index}.", f"The data set has {len(self.labels)} of them.")
        encoded = replace(self.features.select([index]), names=[self.data.image_name(index)])
        return QueryImage(encoded, int(self.labels[index]), self.data.image_name(index), index)

    @cachedmethod(attrgetter("_encodings"))
    def _encode(self, upload: str) -> EncodedImages:
        encoded = self.explainer.encode([self.uploads.open(upload)])
        return replace(encoded, pictures=[], sources=[], names=["dropped image"])  # its pixels are in a file

    def with_defaults(self, view: View) -> View:
        """Return a view whose image and target are set, to the defaults where they were not; refuse impossible ones."""
        if view.upload is None and view.image is None:
            view = view.with_(image=self.first_image)
        query = self.query(view)
        logits = query.encoded.logits[0].float()
        predicted, target = int(logits.argmax()), view.target
        if target is None:
            nearest, _ = choose_target(logits, None, query.label, None, None)
            order = (nearest, *logits.argsort(descending=True).tolist())
            target = next((k for k in order if k != predicted and self.correct_images.get(k)), nearest)
            view = view.with_(target=target)
        if not 0 <= target < len(logits):
            raise ClassIndexError(f"there is no class {target}.", f"The model has {len(logits)}.")
        if target == predicted:
            raise ClassIndexError(
                f"the model already says {self.class_name(predicted)} of this image.", "Choose another class."
            )
        if not self.correct_images.get(target):
            name = self.class_name(target)
            raise NoDistractorsError(
                f"the model gets no image of {name} right, so there is nothing to take regions from.",
                "Choose another class.",
            )
        return view

    def top_classes(self, view: View, count: int = 6) -> list[tuple[int, float]]:
        """Return the likeliest classes of the image with their probabilities, the likeliest first."""
        probabilities = self.query(view).encoded.logits[0].float().softmax(0)
        values, indices = probabilities.topk(min(count, len(probabilities)))
        return list(zip(indices.tolist(), values.tolist(), strict=True))

    def distractor_indices(self, view: View) -> list[int]:
        """Return the images that a view may take regions from, at most `MOST_DISTRACTORS`."""
        assert view.target is not None
        candidates = self.correct_images.get(view.target, [])
        return draw_distractors(candidates, MOST_DISTRACTORS, seed=self.config.seed, query=self.query(view).number)

    def method(self, view: View) -> Method:
        """Return the method of a view with those of the view's settings that it has."""
        resolve = self.explainer.method_with_patience if view.edits is None else self.explainer.resolve_method
        method = resolve(view.method)
        settings: dict[str, Any] = {
            "lam": view.lam, "beam": view.beam, "max_edits": view.edits, "memory_mb": self.evaluator_mb,
            **({} if view.tau is None else {"tau": view.tau}),
        }  # fmt: skip
        return changed(method, **{name: value for name, value in settings.items() if method.takes(name)})

    def distractor_count(self, view: View) -> int:
        """Return how many distractors a view uses: some methods are made for one."""
        available = len(self.distractor_indices(view))
        if view.swaps is not None:  # swaps by hand may take from any
            return available
        return min(view.distractors, METHODS.get(view.method).distractors or available, available)

    def problem(self, view: View) -> Problem:
        """Return the problem of a view, which depends on image, target and number of distractors only."""
        count, indices, key = self.distractor_count(view), self.distractor_indices(view), (view.key, view.target)
        # With fewer distractors it is a part of the problem with all of them, whose cached evaluations it shares.
        by_count = self._problems.get(key) or {len(indices): self._new_problem(view, indices)}
        self._problems[key] = by_count
        if count not in by_count:
            whole = by_count[len(indices)]
            whole.evaluator(self.explainer.plan, self.evaluator_mb)  # whose results both share
            by_count[count] = whole.with_first_distractors(count, self._result_context(view, indices[:count]))
        return by_count[count]

    @property
    def evaluator_mb(self) -> float:
        """Memory of the search that is under way."""
        return min(SearchSettings.memory_mb, self.memory_mb / 2)

    def cached_bytes(self) -> int:
        """Return how much memory the cached problems take."""
        return sum(size for key, size in self._sizes.items() if key in self._problems)

    def _limit_memory(self, view: View) -> None:
        """Measure the problem that was worked on; drop the least recently used ones until the rest fits into memory."""
        latest, shared = (view.key, view.target), storages(vars(self.explainer.plan))
        sizes = storages(self._problems.get(latest))
        self._sizes = {key: size for key, size in self._sizes.items() if key in self._problems}
        self._sizes[latest] = sum(size for address, size in sizes.items() if address not in shared)
        limit = (self.memory_mb - self.evaluator_mb) * 2**20
        while self.cached_bytes() > limit:
            self._problems.popitem()
        self._heap.trim(limit / 4)

    def _result_context(self, view: View, indices: Sequence[int]) -> ResultContext:
        provenance = Provenance(
            query=self.query(view).name,
            distractors=[self.data.image_name(k) for k in indices],
            model=self.explainer.model_name,
            layer=self.explainer.cut.layer,
            auxiliary=self.features.auxiliary,
        )
        return ResultContext(provenance, self.explainer.class_names or ())

    def _new_problem(self, view: View, indices: Sequence[int]) -> Problem:
        assert view.target is not None
        device = self.explainer.device
        query, others = self.query(view).encoded.to(device), self.features.select(indices).to(device)
        return Problem.of(
            query.cut_grids,
            others.grids,
            view.target,
            query_aux=None if query.aux is None else query.aux[0],
            distractor_aux=others.aux,
            aux_widths=others.widths,
            auxiliary_tau=None if self.explainer.auxiliary is None else self.explainer.auxiliary.tau,
            about=self._result_context(view, indices),
            cache=SearchCache(),
        )

    def solve(self, view: View) -> Counterfactual:
        """Return the counterfactual of a view: the result of its search, or of the swaps made by hand."""
        if view.swaps is not None:
            return apply_edits(
                self.explainer.plan, self.problem(view), view.swaps, memory_mb=self.evaluator_mb, cancel=self.cancel
            )
        method = self.method(view)
        key = (view.key, view.target, self.distractor_count(view), view.method, repr(method))
        cf = self._results.get(key)
        if cf is None:
            try:
                cf = self._results[key] = method.solve(self.explainer.plan, self.problem(view), self.cancel)
            finally:
                self._limit_memory(view)
        return cf

    def solve_within(self, view: View, seconds: float) -> Counterfactual | None:
        """Return the counterfactual of a view, None if that takes longer; what was evaluated by then is cached."""
        try:
            with self.cancel.within(seconds):
                return self.solve(view)
        except CancelledError:
            self.cancel.check()  # perhaps nobody waits for it at all
            return None

    def with_pixel_check(self, view: View) -> Counterfactual:
        """Return the counterfactual of a view with its images and its pixel check."""
        return self.explainer.pixel_check(self.with_pictures(view, self.solve(view)))

    def evidence(self, view: View, cf: Counterfactual) -> Evidence:
        """Return the annotations of the images that edits use; dropped images have none."""
        facts, used = self.context.facts, {edit.distractor_image for edit in cf.edits}
        query = NO_FACTS if view.image is None else facts[view.image]
        distractors = self.distractor_indices(view)[: cf.distractors]
        return Evidence(query, [facts[image] if k in used else NO_FACTS for k, image in enumerate(distractors)])

    @cached_property
    def _outliers(self) -> OutlierDetector:
        return OutlierDetector(self.features)

    def is_outlier(self, view: View) -> bool:
        """Return whether the image of a view is unlike all images of the data set."""
        return view.upload is not None and self._outliers.is_outlier(self.query(view).encoded.grids)

    def prefetch_candidates(self, view: View, slider: str = "") -> Iterator[View]:
        """Yield the views that moving one slider may lead to, far positions early since they cost most.

        Sliders take turns; positions of `slider`, the one under the pointer, come first.
        """
        if view.swaps is not None:
            return
        method, available = METHODS.get(view.method)(), len(self.distractor_indices(view))
        lam = _neighboring_values(round(view.lam * 20), range(41), (-4, 8, 2, -8, 20, -2, 32, 1, -1, 14, 4))
        tau = [k for k in (10, 5, 20, 15, 25, 30, 3) if k != round((view.tau or 0) * 100)]
        beam = _neighboring_values(view.beam, range(1, MOST_BEAM + 1), (8, -4, -7, 4, -2, -1, 1, 2))
        count = _neighboring_values(
            min(view.distractors, available), range(1, available + 1), (-10, -15, -5, -2, -1, 1)
        )
        edits = range(1, 8)
        turns = {
            "lam": [view.with_(lam=k / 20) for k in lam] if method.takes("lam") else [],
            "beam": [view.with_(beam=k) for k in beam] if method.takes("beam") else [],
            "n": [view.with_(distractors=k) for k in count] if method.distractors is None else [],
            "edits": [view.with_(edits=k) for k in edits] if method.takes("max_edits") else [],
            "tau": [view.with_(tau=k / 100) for k in tau] if method.takes("tau") else [],
        }
        yield from turns.pop(slider, [])
        for turn in zip_longest(*turns.values()):
            yield from filter(None, turn)

    def image(self, key: str) -> Image.Image:
        """Return an image of the data set by its number, or a dropped one by its digest."""
        if key.isascii() and key.isdecimal():
            index = int(key[:9])
            if index >= len(self.labels):
                raise ImageError(f"there is no image {index}.", f"The data set has {len(self.labels)} of them.")
            return self.data.image(index).convert("RGB")
        return self.uploads.open(key)

    def with_pictures(self, view: View, cf: Counterfactual) -> Counterfactual:
        """Return a counterfactual with its images; those that no edit uses are blank instead of read."""
        used = {edit.distractor_image for edit in cf.edits}
        indices = self.distractor_indices(view)[: cf.distractors]
        keys = [view.key, *(str(k) if number in used else None for number, k in enumerate(indices))]
        blank = Image.new("RGB", self.explainer.preprocess.shape[::-1])
        sources = [blank if key is None else self.image(key) for key in keys]
        canvases = [image if image is blank else self.explainer.preprocess.crop(image) for image in sources]
        return replace(cf, pictures=Pictures(canvases[0], canvases[1:], sources, self.explainer.preprocess))


def _neighboring_values(value: int, valid: range, steps: Sequence[int]) -> list[int]:
    """Return the valid values that are these steps away."""
    return [value + step for step in steps if value + step in valid]
