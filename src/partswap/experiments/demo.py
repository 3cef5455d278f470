"""The demo: explain some tens of aviary birds with several methods, and compare.

Everything it needs is in the package: the birds are drawn, the networks are small and shipped with their weights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from partswap.apps.report import Example, write_report
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


@dataclass
class DemoResult:
    """What the demo found, by method."""

    scores: dict[str, dict[str, Score]]
    accuracy: float
    report: Path
    explained: dict[str, list[tuple[Counterfactual, Evidence]]] = field(repr=False, default_factory=dict)


def run_demo(
    out: Path,
    *,
    model: str = "vgg",
    methods: Sequence[str] = ("goyal", "paper", "partswap"),
    queries: int = 40,
    distractors: int = 10,
    per_class: int = 12,
    seed: int = 0,
    console: Console | None = None,
) -> DemoResult:
    """Explain `queries` birds with each method, print a table, write ``report.html`` into `out`.

    Parameters
    ----------
    out : pathlib.Path
        Folder for the report.
    model : {"vgg", "resnet"}
        Which shipped classifier to explain.
    methods : sequence of str
        Names of registered methods.
    queries, distractors, per_class : int
        How many images to explain, to take regions from, and to draw per species.
    seed : int
        Which birds, and which distractors.
    """
    console = console or Console()
    if queries < 1 or distractors < 1 or per_class < 2:
        raise SettingError(
            f"queries={queries}, distractors={distractors}, per_class={per_class}.",
            "Use at least 1 query, 1 distractor and 2 images per class.",
        )
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

    scores = {name: score_all(rows) for name, rows in explained.items()}
    accuracy = float(right.float().mean())
    console.print(
        results_table(scores, title=f"{len(chosen)} birds, shipped {model} classifier ({accuracy:.0%} right)")
    )
    out.mkdir(parents=True, exist_ok=True)
    report = write_report(
        out / "report.html",
        title="partswap on the aviary",
        scores=scores,
        columns=COLUMNS,
        examples=_examples(explained),
        note=(
            f"{len(chosen)} birds the classifier gets right, each explained towards the species it is most confused "
            f"with. Classifier: shipped {model}, {accuracy:.0%} of {len(data)} test birds right."
        ),
    )
    return DemoResult(scores, accuracy, report, explained)


def results_table(scores: dict[str, dict[str, Score]], *, title: str) -> Table:
    """Return the comparison of methods as a table for the terminal."""
    table = Table(title=title, title_justify="left")
    table.add_column("method")
    for name, which in COLUMNS:
        metric = METRICS.get(name)()
        label = metric.title + (f"\n{which}" if metric.per_edit else "")
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


def _examples(explained: dict[str, list[tuple[Counterfactual, Evidence]]]) -> list[Example]:
    """Return every query with what each method found for it."""
    per_query = zip(*explained.values(), strict=True)
    examples = [
        Example(
            title=f"{cfs[0][0].class_name(cfs[0][0].query_class)} → {cfs[0][0].class_name(cfs[0][0].target)}",
            truth=sorted(cfs[0][1].differing or ()),
            found={METHODS.get(m).title: cf for m, (cf, _) in zip(explained, cfs, strict=True)},
        )
        for cfs in per_query
    ]
    # The hardest, and the most telling, first: species that differ in the fewest parts.
    return sorted(examples, key=lambda example: len(example.truth))
