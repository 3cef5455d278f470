"""What searches of one problem share, so that one with other settings need not compute it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from partswap.evaluators import CachingEvaluator, SwapEvaluator

if TYPE_CHECKING:
    from partswap.search.problem import Similarity

#: Similarities that are cached, each of another temperature.
SIMILARITIES = 8


class SearchCache:
    """The evaluators of a problem, with what they have computed, and its latest similarities.

    It takes memory: it is for many searches of one problem (`Problem.cache`).
    """

    def __init__(self) -> None:
        self._evaluators: dict[Hashable, CachingEvaluator] = {}
        self._similarities: dict[Hashable, Similarity] = {}

    def __len__(self) -> int:
        return len(self._similarities)

    def evaluator(self, key: Hashable, make: Callable[[], SwapEvaluator]) -> CachingEvaluator:
        """Return the evaluator of a key, made the first time."""
        if key not in self._evaluators:
            self._evaluators[key] = CachingEvaluator(make())
        return self._evaluators[key]

    def similarity(self, key: Hashable, make: Callable[[], Similarity]) -> Similarity:
        """Return the similarity of a key, made if it is not among the latest."""
        if key not in self._similarities:
            while len(self._similarities) >= SIMILARITIES:
                del self._similarities[next(iter(self._similarities))]
            self._similarities[key] = make()
        return self._similarities[key]

    def with_first_cells(self, cells: int) -> SearchCache:
        """Return the cache of the same problem with the first distractor cells only.

        The evaluators of both share what either computes. Similarities depend on all distractors: none are shared.
        """
        narrow = SearchCache()
        narrow._evaluators = {key: each.with_first_cells(cells) for key, each in self._evaluators.items()}
        return narrow
