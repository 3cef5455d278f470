"""Explain a whole split from its features: which image towards which class, from which distractors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from partswap.data.base import Dataset
from partswap.data.geometry import on_canvas
from partswap.data.on_grid import CellFacts, cell_facts
from partswap.data.pairs import confused_classes, draw_distractors
from partswap.errors import PartswapError, SettingError
from partswap.explainer.explainer import Explainer
from partswap.features.encode import EncodedImages
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.metrics import Evidence
from partswap.results.counterfactual import Counterfactual
from partswap.runs.config import Only
from partswap.search import Method
from partswap.search.problem import CellParts
from partswap.utils.progress import Track, no_progress, tracked


@dataclass(frozen=True)
class Task:
    """One explanation to make: of which image, towards which class, from which images in the order they were drawn."""

    query: int
    target: int
    distractors: tuple[int, ...]


@dataclass(frozen=True)
class Tasks:
    """All explanations of a split, in the order of the images, and why some images have none."""

    tasks: list[Task]
    #: Images that the model gets wrong, whether they are explained or not.
    misclassified: int
    #: Target classes of which the model gets no image right.
    without_distractors: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tasks)

    def first(self, count: int | None, *, seed: int = 0) -> Tasks:
        """Return some of the tasks, drawn at random but kept in order."""
        if count is None or count >= len(self.tasks):
            return self
        chosen = torch.randperm(len(self.tasks), generator=torch.Generator().manual_seed(seed))[:count]
        return Tasks([self.tasks[i] for i in sorted(chosen.tolist())], self.misclassified, self.without_distractors)


def plan_tasks(
    logits: Tensor,
    labels: NDArray[np.int64],
    *,
    distractors: int = 20,
    seed: int = 0,
    targets: Mapping[int, int] | None = None,
    only: Only = "right",
) -> Tasks:
    """Return what to explain: every image the model gets right, towards the nearest class of its own.

    `logits` ``(n, classes)`` and `labels` ``(n,)`` are those of the evaluated split. Distractors are drawn from the
    images of the target class that the model gets right. `targets` maps each class to its nearest, which by default is
    that of `confused_classes`: the model need not ever take the one for the other. With `only` "wrong" the images are
    those it gets wrong, towards their true class ("why is this not what it is?"); with "all" both, each in its way.
    """
    truth = torch.from_numpy(labels)
    right = logits.argmax(1) == truth
    targets = targets if targets is not None else confused_classes(logits, truth)
    # Donors are listed once per class: looking through all logits again for every query is quadratic.
    donors_of: dict[int, list[int]] = {}
    for index in right.nonzero().flatten().tolist():
        donors_of.setdefault(int(labels[index]), []).append(index)
    asked = {"right": right, "wrong": ~right, "all": torch.ones_like(right)}[only]
    tasks: list[Task] = []
    empty: set[int] = set()
    for query in asked.nonzero().flatten().tolist():
        label = int(labels[query])
        target = targets[label] if right[query] else label
        donors = draw_distractors(donors_of.get(target, ()), distractors, seed=seed, query=query)
        if donors:
            tasks.append(Task(query, target, tuple(donors)))
        else:
            empty.add(target)
    if only == "wrong" and not asked.any():
        raise PartswapError(
            f"there is nothing to explain: the model gets all {len(labels)} images right.",
            "Explain those (only: right), or use more images.",
        )
    if not tasks:
        raise PartswapError(
            f"there is nothing to explain: the model gets {int(right.sum())} of {len(labels)} images right, and "
            f"{len(empty)} classes have no distractor.",
            "Use a better classifier, or more images.",
        )
    return Tasks(tasks, int((~right).sum()), sorted(empty))


def explain_tasks(
    explainer: Explainer,
    features: EncodedImages,
    tasks: Sequence[Task],
    method: Method,
    *,
    facts: AnnotationCache | None = None,
    track: Track = no_progress,
    title: str = "",
) -> Iterator[tuple[Task, Counterfactual]]:
    """Yield every task with its counterfactual, in order; methods that want annotated parts need `facts`."""
    parts = None if facts is None else facts.parts
    for task in tracked(tasks, title or method.title, track):
        yield task, explain_task(explainer, task, method, features, parts)


def explain_task(
    explainer: Explainer,
    task: Task,
    method: Method,
    features: EncodedImages,
    parts: Callable[[int], CellParts] | None,
    pictures: Callable[[int], Image] | None = None,
) -> Counterfactual:
    """Return the counterfactual of a task.

    `parts` gives what the cells of an image hold, for methods that ask; `pictures` what the model sees of it, for the
    pixel check, which is made if they are given.
    """
    indices = task.distractors[: method.distractors]
    annotations: dict[str, Any] = {}
    if method.wants_parts:
        if parts is None:
            raise SettingError(f"{method!r} must be told which parts the cells hold.", "Pass facts.")
        annotations = {"query_parts": parts(task.query), "distractor_parts": [parts(k) for k in indices]}
    # Distractors were checked when the tasks were planned.
    query, others = features.select([task.query]), features.select(indices)
    if pictures is None:
        return explainer.explain(query, others, task.target, method=method, keep_misclassified=True, **annotations)
    query = replace(query, pictures=[pictures(task.query)])
    others = replace(others, pictures=[pictures(k) for k in indices])
    cf = explainer.explain(
        query, others, task.target, method=method, keep_misclassified=True, pixel=True, **annotations
    )
    return replace(cf, pictures=None)  # it goes back to another process


class AnnotationCache:
    """What the cells of a data set's images hold on the classifier's grid, computed once per image."""

    def __init__(self, data: Dataset, preprocess: Preprocess, grid: GridShape) -> None:
        self.data, self.preprocess, self.grid = data, preprocess, grid
        self._known: dict[int, CellFacts] = {}

    def __getitem__(self, index: int) -> CellFacts:
        if index not in self._known:
            self._known[index] = cell_facts(on_canvas(self.data[index], self.preprocess), self.grid)
        return self._known[index]

    def parts(self, index: int) -> CellParts:
        """Return the parts with a keypoint in each cell of an image; empty sets if it has no annotations."""
        return self[index].keypoints or (frozenset[str](),) * self.grid.cells

    def evidence(self, task: Task, predicted: int | None = None) -> Evidence:
        """Return what is known about the images of a task; `said` is what the model says of its query.

        The two classes that differ are the query's own and the target; where these are one, because a mistake is
        explained towards the true class, the class that the model took it for and the target.
        """
        own = self.data.label(task.query)
        differing = self.data.differing_parts(
            predicted if own == task.target and predicted is not None else own, task.target
        )
        return Evidence(self[task.query], [self[k] for k in task.distractors], differing)
