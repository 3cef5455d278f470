"""Do explanations depend on the model? Weight randomisation (Adebayo et al. 2018).

The same queries are explained with a network whose weights are random. An explanation that hardly changes is not about
the network.

The verdict: a method that ignores the network swaps the same cells whatever its weights are (all are shared); one that
depends on nothing else shares what chance gives. Between the two lies what every good explanation has, because images
and auxiliary stay as they are and the object is where it is. A check passes if the shared cells, with their 95 %
interval, lie below the middle between chance and all: most of the explanation is then about the weights.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from partswap.errors import PartswapError, SettingError
from partswap.explainer.explainer import Explainer
from partswap.features.encode import EncodedImages
from partswap.runs.context import RunContext
from partswap.runs.tasks import Task, plan_tasks
from partswap.search import Method
from partswap.search.settings import changed
from partswap.utils.estimates import Estimate
from partswap.utils.progress import Track, no_progress, step, tracked
from partswap.utils.tables import Cell, ResultTable

#: What may be randomised: the weights after the cut, or all of them.
DEPTHS = ("head", "all")


@dataclass(frozen=True)
class Randomised:
    """How explanations change when weights are random; `which` are "head" or "all"."""

    which: str
    #: Jaccard index of the swapped query cells, before and after.
    overlap: Estimate
    #: The same for as many cells drawn at random.
    chance: Estimate
    #: Spearman's, of how much swapping each query cell promises by the gradient.
    correlation: Estimate
    #: Queries that the randomised network already calls the target: there is nothing to explain.
    skipped: int

    @property
    def limit(self) -> float | None:
        """The middle between chance and all cells; None if nothing was compared."""
        return None if self.chance.mean is None else (1 + self.chance.mean) / 2

    @property
    def passes(self) -> bool:
        """Whether explanations changed enough to be about the weights: see the module."""
        return self.limit is not None and self.overlap.interval is not None and self.overlap.interval[1] < self.limit

    def verdict(self) -> str:
        """Return the outcome as one plain line."""
        weights = "a random head" if self.which == "head" else "random weights"
        if self.overlap.mean is None or self.chance.mean is None or self.limit is None:
            return f"FAILS: with {weights} the model says the target for every query, so nothing could be compared."
        shared = (
            f"with {weights} the edits share {100 * self.overlap.mean:.0f} % of cells with the model's own "
            f"(chance {100 * self.chance.mean:.0f} %)"
        )
        if self.passes:
            return f"passes: {shared}."
        if self.overlap.interval is None or self.overlap.interval[0] < self.limit:
            return f"FAILS: {shared}, and {self.overlap.count} queries are too few to tell; use more."
        return f"FAILS: {shared}: they hardly depend on the model."


def check_sanity(
    bench: RunContext,
    *,
    method: str | Method = "partswap",
    which: Sequence[str] = DEPTHS,
    queries: int | None = 100,
    distractors: int = 5,
    seed: int = 0,
    track: Track = no_progress,
) -> list[Randomised]:
    """Explain the same queries with the network and with randomised copies of it.

    The copy may use as many edits as the network itself needed, so that both swap about the same number of cells. It
    gets the same queries, distractors, targets and auxiliary grids.
    """
    for name in which:
        check_depth(name)
    chosen, tasks = choose(bench, method, queries, distractors, seed)
    outcomes = []
    for name in which:
        with step(track, f"randomising {name}"):
            explainer = Explainer(
                randomise(bench.classifier.model, weights_of(bench, name), seed=seed),
                bench.explainer.cut.layer,
                auxiliary=None,  # its grids are those of the bench
                preprocess=bench.classifier.preprocess,
            )
        rows: list[tuple[float | None, ...]] = []
        for task in tracked(tasks, f"randomised {name}", track):
            row = _compare(bench, explainer, chosen, task, encode=name == "all")
            rows += [] if row is None else [row]
        columns = ([row[k] for row in rows] for k in range(3))
        overlap, chance, correlation = (
            Estimate.of([value for value in column if value is not None], seed=seed) for column in columns
        )
        outcomes.append(Randomised(name, overlap, chance, correlation, len(tasks) - len(rows)))
    return outcomes


def sanity_verdict(rows: Sequence[Randomised]) -> str:
    """Return the outcome of all checks as one plain line."""
    passed = sum(row.passes for row in rows)
    if passed == len(rows):
        return f"verdict: passes ({passed} of {len(rows)} checks): the explanations are about the model."
    return f"verdict: FAILS ({passed} of {len(rows)} checks pass): do not trust these explanations as they are."


def sanity_table(rows: Sequence[Randomised], note: str = "") -> ResultTable:
    """Return the outcome as a table."""
    cells: list[list[Cell]] = [
        [r.which, r.overlap.show(factor=100), r.chance.show(factor=100), r.correlation.show(digits=2), r.overlap.count,
         r.skipped]
        for r in rows
    ]  # fmt: skip
    columns = ["randomised", "same cells, %", "by chance, %", "rank correlation", "queries", "skipped"]
    return ResultTable("Explanations of a network with random weights", columns, cells, note)


def check_depth(which: str) -> None:
    """Raise an error if weights of that name cannot be randomised."""
    if which not in DEPTHS:
        raise SettingError(f"there is nothing called {which!r} to randomise.", f"Use {' or '.join(DEPTHS)}.")


def weights_of(bench: RunContext, which: str) -> set[str]:
    """Return the names of the classifier's parameters after the cut ("head"), or of all."""
    named = list(bench.classifier.model.named_parameters())
    if which == "all":
        return {name for name, _ in named}
    parts = bench.explainer.cut
    before = {id(p) for p in parts.features.parameters()}
    after = {id(p) for p in parts.head.parameters()} - before
    weights = {name for name, p in named if id(p) in after}
    if not weights:
        raise PartswapError(
            f"the head after {parts.layer} has no weights of its own.", "Randomise all weights, or cut earlier."
        )
    return weights


def randomise(model: nn.Module, names: set[str], *, seed: int = 0) -> nn.Module:
    """Return a copy of a network in which the named parameters start anew.

    Linear and convolutional layers get He's normal weights, which keep signals alive through any depth; norms are reset
    with their statistics, which belong to the old weights; entries of anything else are shuffled.
    """
    twin = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for prefix, module in twin.named_modules():
            own = {f"{prefix}.{name}".lstrip("."): p for name, p in module.named_parameters(recurse=False)}
            if isinstance(module, nn.modules.batchnorm._NormBase | nn.GroupNorm | nn.LayerNorm) and names & own.keys():
                module.reset_parameters()
                continue
            weighted = isinstance(module, nn.Linear | nn.modules.conv._ConvNd)
            for name in sorted(names & own.keys()):
                _start_anew(own[name], weighted, generator)
    return twin


def _start_anew(parameter: nn.Parameter, weighted: bool, generator: torch.Generator) -> None:
    if weighted and parameter.ndim == 1:
        parameter.zero_()
    elif weighted:
        spread = math.sqrt(2 / parameter[0].numel())
        parameter.copy_(spread * torch.randn(parameter.shape, generator=generator))
    else:
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.copy_(parameter.flatten()[order].view_as(parameter))


def first_order(explainer: Explainer, query: EncodedImages, donors: EncodedImages, target: int) -> Tensor:
    """Return how much swapping each query cell promises: the best first-order gain over all donors, ``(h*w,)``."""
    with torch.no_grad():
        evaluator = explainer.plan.evaluator(query.grids[0], donors.grids, 2**30, query.contexts)
        return next(evaluator.gains(evaluator.start, target, margins=False)).score.amax(1)


def _compare(
    bench: RunContext, other: Explainer, method: Method, task: Task, *, encode: bool
) -> tuple[float, float, float | None] | None:
    """Return overlap, chance and correlation for one query, None if the other network already says the target."""
    query = bench.encodings.select([task.query])
    used = task.distractors[: method.distractors]
    distractors = bench.encodings.select(used)
    own_cells = query_cells(bench.explainer, method, query, distractors, task.target)
    scores = first_order(bench.explainer, query, distractors, task.target)
    if encode:
        encoded = other.encode([bench.data.image(k) for k in (task.query, *used)])
        query = replace(encoded.select([0]), aux=query.aux)
        distractors = replace(encoded.select(range(1, len(encoded))), aux=distractors.aux)
    with torch.no_grad():
        if int(other.cut.head(query.cut_grids).argmax()) == task.target:
            return None
    if method.takes("max_edits"):
        method = changed(method, max_edits=max(1, len(own_cells)))
    other_cells = query_cells(other, method, query, distractors, task.target)
    a, b = set(own_cells), set(other_cells)
    union = len(a | b)
    if not union:
        return None
    chance = chance_overlap(len(a), len(b), other.cut.grid.cells)
    return len(a & b) / union, chance, _spearman(scores, first_order(other, query, distractors, task.target))


def chance_overlap(first: int, second: int, cells: int) -> float:
    """Return the mean Jaccard index of two sets of so many cells, drawn at random."""
    from scipy.stats import hypergeom

    shared = np.arange(min(first, second) + 1)
    return float((hypergeom.pmf(shared, cells, first, second) * shared / (first + second - shared)).sum())


def _spearman(a: Tensor, b: Tensor) -> float | None:
    from scipy.stats import rankdata

    ranks = [rankdata(x.cpu().numpy()) for x in (a, b)]
    if any(np.ptp(r) == 0 for r in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def choose(
    bench: RunContext, method: str | Method, queries: int | None, distractors: int, seed: int
) -> tuple[Method, list[Task]]:
    """Return the method and the queries to check."""
    chosen = bench.explainer.resolve_method(method)
    if chosen.wants_parts:
        raise SettingError(f"{chosen!r} wants annotated parts, which move with the image.", "Check another method.")
    planned = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=distractors, seed=seed)
    return chosen, planned.first(queries, seed=seed).tasks


def query_cells(
    explainer: Explainer, method: Method, query: EncodedImages, donors: EncodedImages, target: int
) -> list[int]:
    """Return the query cells that an explanation swaps, in order."""
    cf = explainer.explain(query, donors, target, method=method, keep_misclassified=True)
    return [edit.query_cell for edit in cf.edits]
