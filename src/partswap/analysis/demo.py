"""The demo: explain some tens of aviary birds with several methods, and compare.

Everything it needs is in the package: the birds are drawn, the networks are small and shipped with their weights.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from PIL import Image

from partswap.data.sets.aviary import Aviary
from partswap.errors import SettingError
from partswap.explainer.explainer import Explainer
from partswap.metrics import METRICS, Evidence, Score, score_all
from partswap.metrics.clarity import clearest_first
from partswap.models import shipped
from partswap.results.counterfactual import Counterfactual
from partswap.runs.confusion import Confusion
from partswap.runs.tasks import AnnotationCache, Task, explain_tasks, plan_tasks
from partswap.search import METHODS
from partswap.utils.estimates import Estimate
from partswap.utils.progress import Track, no_progress
from partswap.utils.tables import Cell, ResultTable

#: The columns of the table: metric, and whether it shows first edits or all of them.
COLUMNS = (
    ("near_kp", "all"),
    ("same_kp", "single"),
    ("same_kp", "all"),
    ("true_part", "all"),
    ("edits", "all"),
    ("flip_rate", "all"),
    ("seconds", "all"),
)


@dataclass(frozen=True)
class DemoExample:
    """One query, explained by several methods."""

    title: str
    #: Parts in which the two classes truly differ, if known.
    truth: Sequence[str]
    #: By the method's title.
    found: Mapping[str, Counterfactual]


@dataclass(frozen=True)
class DemoResult:
    """What the demo found: a shipped classifier, its accuracy on so many drawn birds, and explanations."""

    model: str
    accuracy: float
    birds: int
    #: What the classifier takes for what.
    confusion: Confusion = field(repr=False)
    #: By method: every counterfactual with what is known about its images.
    explained: dict[str, list[tuple[Counterfactual, Evidence]]] = field(repr=False)

    @cached_property
    def scores(self) -> dict[str, dict[str, Score]]:
        """All metrics, by method."""
        return {name: score_all(rows) for name, rows in self.explained.items()}

    @property
    def queries(self) -> int:
        """How many birds were explained."""
        return len(next(iter(self.explained.values())))

    @property
    def title(self) -> str:
        """What the table shows."""
        return f"{self.queries} birds, shipped {self.model} classifier ({self.accuracy:.0%} right)"

    @property
    def note(self) -> str:
        """What was done, in a few sentences."""
        return (
            f"{self.queries} birds the classifier gets right, each explained towards its nearest species: the one it "
            "is most often taken for or, if it never is, the one with the highest mean probability. "
            f"Classifier: shipped {self.model}, {self.accuracy:.0%} of {self.birds} test birds right."
        )

    def clearest(self, method: str = "partswap") -> Counterfactual:
        """Return the explanation that is easiest to read (see `partswap.metrics.clarity`), with its pixel check."""
        explainer = Explainer(shipped.load(self.model), preprocess=shipped.PREPROCESS, auxiliary="none")
        explanations = [explainer.pixel_check(cf) for cf, _ in self.explained[method]]
        return explanations[clearest_first(explanations, [evidence for _, evidence in self.explained[method]])[0]]

    def examples(self) -> list[DemoExample]:
        """Return every query with what each method found for it, the most telling first."""
        examples = []
        for cfs in zip(*self.explained.values(), strict=True):
            first, evidence = cfs[0]
            title = f"{first.class_name(first.query_class)} → {first.class_name(first.target)}"
            by_title = {METHODS.get(m).title: cf for m, (cf, _) in zip(self.explained, cfs, strict=True)}
            examples.append(DemoExample(title, sorted(evidence.differing or ()), by_title))
        # Species that differ in the fewest parts are the hardest to tell apart.
        return sorted(examples, key=lambda example: len(example.truth))


def run_demo(
    *,
    model: str = "vgg",
    methods: Sequence[str] = ("goyal", "paper", "partswap"),
    queries: int = 40,
    distractors: int = 10,
    per_class: int = 12,
    seed: int = 0,
    track: Track = no_progress,
) -> DemoResult:
    """Explain the shipped classifier ("vgg" or "resnet") on `queries` birds, with each method.

    `per_class` birds are drawn per species; the seed decides which, and which distractors are used.
    """
    if queries < 1 or distractors < 1 or per_class < 2:
        raise SettingError(
            f"queries={queries}, distractors={distractors}, per_class={per_class}.",
            "Use at least 1 query, 1 distractor and 2 images per class.",
        )
    if seed < 0 or not methods:
        raise SettingError(f"seed={seed}, methods={list(methods)}.", "Use a seed from 0 and at least one method.")
    data = Aviary("test", per_class=per_class, seed=seed)
    with track("drawing birds", len(data)) as advance:
        pictures = [Image.fromarray(p) for p in data.pixels(workers=os.cpu_count() or 1)]
        advance(len(data))
    network, preprocess = shipped.load(model), shipped.PREPROCESS
    explainer = Explainer(network, preprocess=preprocess, class_names=data.classes)
    with track("computing features", len(data)) as advance:
        encoded = explainer.encode(pictures)
        advance(len(data))
    tasks = plan_tasks(encoded.logits, data.labels(), distractors=distractors, seed=seed).tasks
    chosen = _take_turns(tasks, data, queries, seed)
    facts = AnnotationCache(data, preprocess, explainer.cut.grid)
    explained: dict[str, list[tuple[Counterfactual, Evidence]]] = {}
    for name in methods:
        explanations = explain_tasks(explainer, encoded, chosen, METHODS.get(name)(), facts=facts, track=track)
        explained[name] = [(cf, facts.evidence(task)) for task, cf in explanations]
    right = encoded.logits.argmax(1).numpy() == data.labels()
    confusion = Confusion.of(encoded.logits, data.labels(), data.classes)
    return DemoResult(model, float(right.mean()), len(data), confusion, explained)


def results_table(scores: dict[str, dict[str, Score]], *, title: str) -> ResultTable:
    """Return the comparison of methods as a table for the terminal."""
    metrics = [(METRICS.get(name)(), name, which) for name, which in COLUMNS]
    headings = [metric.title + (f"\n{which}" if metric.single else "") for metric, _, which in metrics]
    rows: list[list[Cell]] = []
    for method, of_method in scores.items():
        values = [metric.cell(Estimate(getattr(of_method[name], which))) for metric, name, which in metrics]
        rows.append([METHODS.get(method).title, *values])
    return ResultTable(title, ["method", *headings], rows)


def _take_turns(tasks: Sequence[Task], data: Aviary, count: int, seed: int) -> list[Task]:
    """Return some of the tasks, drawn at random, species taking turns."""
    task_of = {task.query: task for task in tasks}
    by_class: dict[int, list[Task]] = {}
    for index in np.random.default_rng(seed).permutation(len(data)).tolist():
        if index in task_of:
            by_class.setdefault(data.label(index), []).append(task_of[index])
    turns = itertools.zip_longest(*by_class.values())
    return [task for turn in turns for task in turn if task is not None][:count]
