"""The demo: explain some tens of aviary birds with several methods, and compare.

Everything it needs is in the package: the birds are drawn, the networks are small and shipped with their weights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from PIL import Image
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from partswap.counterfactual import Counterfactual
from partswap.data.aviary import Aviary
from partswap.data.on_grid import CellFacts, cell_facts
from partswap.data.pairs import choose_distractors, confused_classes
from partswap.errors import SettingError
from partswap.explainer import Explainer
from partswap.metrics import METRICS, Evidence, Score, score_all
from partswap.models import shipped
from partswap.search import METHODS

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
class Example:
    """One query, explained by several methods.

    Attributes
    ----------
    title : str
        What is explained.
    truth : sequence of str
        Parts in which the two classes truly differ, if known.
    found : Mapping[str, Counterfactual]
        By method's title.
    """

    title: str
    truth: Sequence[str]
    found: Mapping[str, Counterfactual]


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes
    ----------
    model : str
        Which classifier was explained.
    accuracy : float
        Its accuracy on the birds that were drawn, of which there were `birds`.
    birds, skipped : int
        How many birds were drawn, and how many queries had no distractor.
    explained : dict
        By method: every counterfactual with what is known about its images.
    """

    model: str
    accuracy: float
    birds: int
    skipped: int
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
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.queries} birds{skipped}, shipped {self.model} classifier ({self.accuracy:.0%} right)"

    @property
    def note(self) -> str:
        """What was done, in two sentences."""
        return (
            f"{self.queries} birds the classifier gets right, each explained towards the species it is most confused "
            f"with. Classifier: shipped {self.model}, {self.accuracy:.0%} of {self.birds} test birds right."
        )

    def examples(self) -> list[Example]:
        """Return every query with what each method found for it, the most telling first."""
        examples = []
        for cfs in zip(*self.explained.values(), strict=True):
            first, evidence = cfs[0]
            title = f"{first.class_name(first.query_class)} → {first.class_name(first.target)}"
            found = {METHODS.get(m).title: cf for m, (cf, _) in zip(self.explained, cfs, strict=True)}
            examples.append(Example(title, sorted(evidence.differing or ()), found))
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
    console: Console | None = None,
) -> DemoResult:
    """Explain `queries` birds with each method.

    Parameters
    ----------
    model : {"vgg", "resnet"}
        Which shipped classifier to explain.
    methods : sequence of str
        Names of registered methods.
    queries, distractors, per_class : int
        How many images to explain, to take regions from, and to draw per species.
    seed : int
        Which birds, and which distractors.
    console : rich.console.Console, optional
        Where progress is shown.
    """
    console = console or Console()
    if queries < 1 or distractors < 1 or per_class < 2:
        raise SettingError(
            f"queries={queries}, distractors={distractors}, per_class={per_class}.",
            "Use at least 1 query, 1 distractor and 2 images per class.",
        )
    if seed < 0 or not methods:
        raise SettingError(f"seed={seed}, methods={list(methods)}.", "Use a seed from 0 and at least one method.")
    data = Aviary("test", per_class=per_class, seed=seed)
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("drawing birds", total=1)
        pictures = [Image.fromarray(p) for p in data.pixels(workers=os.cpu_count() or 1)]
        progress.update(task, completed=1)
        task = progress.add_task("computing features", total=1)
        explainer = Explainer(
            shipped.load(model),
            auxiliary="aviary",
            preprocess=shipped.PREPROCESS,
            class_names=data.classes,
        )
        encoded = explainer.encode(pictures)
        progress.update(task, completed=1)

        labels = torch.tensor([data.label(i) for i in range(len(data))])
        right = encoded.logits.argmax(1) == labels
        targets = confused_classes(encoded.logits, labels)
        chosen = _choose_queries(right.tolist(), labels.tolist(), queries, seed)
        explained: dict[str, list[tuple[Counterfactual, Evidence]]] = {}
        facts: dict[int, CellFacts] = {}

        def known(index: int) -> CellFacts:
            if index not in facts:
                facts[index] = cell_facts(data[index], explainer.split.grid)
            return facts[index]

        for name in methods:
            method = METHODS.get(name)()
            explainer.method = method
            rows = []
            for query in progress.track(chosen, description=f"{method.title}"):
                target = targets[int(labels[query])]
                wanted = distractors if method.distractors is None else min(method.distractors, distractors)
                donors = choose_distractors(encoded.logits, labels, target, wanted, seed=seed, query=query)
                if not donors:  # the model gets no image of this class right
                    continue
                cf = explainer.explain(encoded.select([query]), encoded.select(donors), target)
                differing = data.differing_parts(cf.query_class, target)
                rows.append((cf, Evidence(known(query), [known(k) for k in donors], differing)))
            explained[name] = rows

    skipped = len(chosen) - len(next(iter(explained.values())))
    return DemoResult(model, float(right.float().mean()), len(data), skipped, explained)


def results_table(scores: dict[str, dict[str, Score]], *, title: str) -> Table:
    """Return the comparison of methods as a table for the terminal."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name, which in COLUMNS:
        metric = METRICS.get(name)()
        label = metric.title + (f"\n{which}" if metric.single else "")
        table.add_column(label, justify="right")
    for method, found in scores.items():
        cells = [METRICS.get(name)().show(getattr(found[name], which)) for name, which in COLUMNS]
        table.add_row(METHODS.get(method).title, *cells)
    return table


def _choose_queries(right: list[bool], labels: list[int], count: int, seed: int) -> list[int]:
    """Return images the model gets right, species taking turns."""
    rng = np.random.default_rng(seed)
    by_class: dict[int, list[int]] = {}
    for index in rng.permutation(len(right)).tolist():
        if right[index]:
            by_class.setdefault(labels[index], []).append(index)
    rounds = [[members[k] for members in by_class.values() if k < len(members)] for k in range(len(right))]
    return [index for turn in rounds for index in turn][:count]
