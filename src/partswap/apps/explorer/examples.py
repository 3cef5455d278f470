"""Chooses the examples of the first page: a clear explanation, a hard one, and one of a mistake of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from partswap.apps.explorer.view import MOST_DISTRACTORS, View
from partswap.errors import PartswapError
from partswap.metrics import Evidence
from partswap.metrics.clarity import CRITERIA, clarity, clearest_first
from partswap.results.counterfactual import Counterfactual
from partswap.utils.cancel import CancelledError
from partswap.utils.progress import Track, no_progress

#: Preferred probability of the second guess for a clear example, so that it takes a few swaps and not one.
RUNNER_UP = 0.06
#: Images that are explained at most to find one of each kind; fewer where one of the first `FIRST` is all clear.
DOUBTFUL, SURE, WRONG, FIRST = 30, 4, 6, 6

#: A complete view with its explanation, pixel check included, and the annotations of its images.
Explained = tuple[View, Counterfactual, Evidence | None]


@dataclass(frozen=True)
class Example:
    """An explanation that the first page offers."""

    title: str
    view: View


@dataclass(frozen=True)
class Candidates:
    """Images that may become examples, by number, the likeliest first."""

    doubtful: list[int]  #: right, and neither a toss-up nor beyond doubt
    sure: list[int]  #: right, and beyond doubt
    wrong: list[int]


def candidate_images(
    logits: Tensor, labels: NDArray[np.int64], correct_images: Mapping[int, Sequence[int]]
) -> Candidates:
    """Return which images to explain; each pair of classes once, so that a hard pair does not take all places."""
    best = logits.float().softmax(1).topk(min(2, logits.shape[1]), 1)
    first, second = best.indices[:, 0].tolist(), best.indices[:, -1].tolist()
    runner_up = best.values[:, -1]
    truth: list[int] = labels.tolist()
    counts = {k: len(images) for k, images in correct_images.items()}
    enough = min(MOST_DISTRACTORS // 2, max(counts.values(), default=0))

    def usable(order: Tensor, most: int, *, wrong: bool = False) -> list[int]:
        pairs: dict[tuple[int, int], int] = {}
        least = max(1, enough // 2 if wrong else enough)  # a class with mistakes has fewer that are right
        for index in order.tolist():
            target = truth[index] if wrong else second[index]
            if (first[index] != truth[index]) == wrong and counts.get(target, 0) >= least:
                pairs.setdefault((first[index], target), index)
            if len(pairs) == most:
                break
        return list(pairs.values())

    doubtful = usable((runner_up - RUNNER_UP).abs().argsort(stable=True), DOUBTFUL)
    # Confident mistakes first: those that the model is unsure of surprise nobody.
    confident = best.values[:, 0].argsort(descending=True, stable=True)
    return Candidates(doubtful, usable(runner_up.argsort(stable=True), SURE), usable(confident, WRONG, wrong=True))


def choose_examples(
    candidates: Candidates, explain: Callable[[View], Explained], track: Track = no_progress
) -> list[Example]:
    """Return a clear example, a hard one and a mistake, as far as there are such; the rule is the report's."""
    with track("examples", sum(map(len, vars(candidates).values()))) as advance:

        def explained(images: Sequence[int]) -> list[Explained]:
            results: list[Explained] = []
            for number, index in enumerate(images):
                if number >= FIRST and any(_is_clear(result) for result in results):
                    break
                try:
                    results.append(explain(View(image=index)))
                except CancelledError:
                    raise
                except PartswapError:  # this one cannot be explained; another can
                    continue
                finally:
                    advance(1)
            return results

        doubtful, sure, wrong = map(explained, (candidates.doubtful, candidates.sure, candidates.wrong))
    ranked, mistakes = _clearest_first([*doubtful, *sure]), _clearest_first(wrong)
    examples = [Example("A clear one", view) for view, _, _ in ranked[:1]]
    # Of those that get there, the hardest to read.
    hard = [view for view, cf, _ in ranked[1:] if cf.flipped]
    examples += [Example("A hard one", view) for view in hard[-1:]]
    return examples + [Example("The model is wrong", view) for view, _, _ in mistakes[:1]]


def _is_clear(result: Explained) -> bool:
    clear = clarity(*result[1:])
    return clear.flipped and clear.criteria == CRITERIA


def _clearest_first(results: Sequence[Explained]) -> list[Explained]:
    order = clearest_first([cf for _, cf, _ in results], [evidence for _, _, evidence in results])
    return [results[k] for k in order]
