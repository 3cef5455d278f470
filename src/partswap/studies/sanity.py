"""Do explanations depend on the model, and do they hold still?

- Weight randomisation (Adebayo et al. 2018): explain the same queries with a network whose weights are random. An
  explanation that hardly changes is not about the network.
- Stability: explain the same query shifted by some pixels. An explanation that jumps is not about the bird.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from partswap.errors import PartswapError, SettingError
from partswap.explainer import Explainer
from partswap.features import Encoded
from partswap.grid import GridShape
from partswap.metrics.bootstrap import Estimate
from partswap.progress import Track, no_progress
from partswap.runs.tasks import Task, plan_tasks
from partswap.runs.workbench import Workbench
from partswap.search import Method
from partswap.search.settings import changed
from partswap.studies.tables import Cell, ResultTable

#: What may be randomised: the weights after the cut, or all of them.
DEPTHS = ("head", "all")


@dataclass(frozen=True)
class Randomised:
    """How explanations change when weights are random.

    Attributes
    ----------
    which : str
        Which weights.
    overlap : Estimate
        Jaccard index of the swapped query cells, before and after.
    chance : Estimate
        What it would be for cells drawn at random, as many.
    correlation : Estimate
        Spearman's, of how much swapping each query cell promises by the gradient.
    skipped : int
        Queries that the randomised network already calls the target: there is nothing to explain.
    """

    which: str
    overlap: Estimate
    chance: Estimate
    correlation: Estimate
    skipped: int


@dataclass(frozen=True)
class Stability:
    """How explanations change when the query is shifted.

    Attributes
    ----------
    pixels : int
        By how much; left, right, up and down.
    iou : Estimate
        Intersection over union of the swapped query cells, moved back.
    same_first : Estimate
        How often the first edit (of those that stay in the picture) is in the same place.
    changed, shifts : int
        After how many of the shifts the model says another class; those are left out.
    """

    pixels: int
    iou: Estimate
    same_first: Estimate
    changed: int
    shifts: int


def check_sanity(
    bench: Workbench,
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
    unknown = [name for name in which if name not in DEPTHS]
    if unknown:
        raise SettingError(f"there is nothing called {unknown[0]!r} to randomise.", f"Use {' or '.join(DEPTHS)}.")
    chosen, tasks = _prepare(bench, method, queries, distractors, seed)
    found = []
    for name in which:
        explainer = Explainer(
            randomise(bench.classifier.model, weights_of(bench, name), seed=seed),
            bench.explainer.cut.layer,
            preprocess=bench.classifier.preprocess,
        )
        rows: list[tuple[float, float, float | None]] = []
        with track(f"randomised {name}", len(tasks)) as advance:
            for task in tasks:
                row = _compare(bench, explainer, chosen, task, encode=name == "all")
                rows += [row] if row is not None else []
                advance(1)
        found.append(
            Randomised(
                name,
                Estimate.of([row[0] for row in rows], seed=seed),
                Estimate.of([row[1] for row in rows], seed=seed),
                Estimate.of([row[2] for row in rows if row[2] is not None], seed=seed),
                len(tasks) - len(rows),
            )
        )
    return found


def check_stability(
    bench: Workbench,
    *,
    method: str | Method = "partswap",
    pixels: int = 8,
    queries: int | None = 100,
    distractors: int = 5,
    seed: int = 0,
    track: Track = no_progress,
) -> Stability:
    """Explain queries as they are and shifted by `pixels` to four sides, and compare.

    What the model sees is shifted; what comes in at the border is a reflection. Distractors stay as they are.
    """
    explainer, preprocess = bench.explainer, bench.classifier.preprocess
    if not 0 < pixels < preprocess.size:
        raise SettingError(f"pixels is {pixels}.", f"Use a shift from 1 to {preprocess.size - 1}.")
    chosen, tasks = _prepare(bench, method, queries, distractors, seed)
    moves = [(0, 0), (pixels, 0), (-pixels, 0), (0, pixels), (0, -pixels)]
    ious: list[float] = []
    firsts: list[float] = []
    changed = 0
    with track(f"shifted by {pixels}", len(tasks)) as advance:
        for task in tasks:
            canvas = preprocess.canvas(bench.data.image(task.query))
            views = explainer.encode([preprocess.tensor(shift(canvas, *move)) for move in moves])
            donors = bench.encodings.select(task.distractors[: chosen.distractors])
            said = views.logits.argmax(1)
            still = [k for k in range(1, len(moves)) if said[k] == said[0] != task.target]
            changed += len(moves) - 1 - len(still)
            wanted = [0, *still] if still else []
            cells = {k: _query_cells(explainer, chosen, views.select([k]), donors, task.target) for k in wanted}
            pairs = [
                compared
                for k in still
                if (compared := compare_shifted(cells[0], cells[k], moves[k], explainer.cut.grid, preprocess.size))
            ]
            if pairs:
                ious.append(float(np.mean([iou for iou, _ in pairs])))
                firsts.append(float(np.mean([first for _, first in pairs])))
            advance(1)
    shifts = len(tasks) * (len(moves) - 1)
    return Stability(pixels, Estimate.of(ious, seed=seed), Estimate.of(firsts, seed=seed), changed, shifts)


def sanity_table(rows: Sequence[Randomised], note: str = "") -> ResultTable:
    """Return the outcome as a table."""
    cells: list[list[Cell]] = [
        [r.which, r.overlap.show(factor=100), r.chance.show(factor=100), r.correlation.show(digits=2), r.overlap.count,
         r.skipped]
        for r in rows
    ]  # fmt: skip
    columns = ["randomised", "same cells, %", "by chance, %", "rank correlation", "queries", "skipped"]
    return ResultTable("Explanations of a network with random weights", columns, cells, note)


def stability_table(rows: Sequence[Stability], note: str = "") -> ResultTable:
    """Return the outcome as a table."""
    cells: list[list[Cell]] = [
        [r.pixels, r.iou.show(factor=100), r.same_first.show(factor=100), r.iou.count,
         100 * r.changed / max(1, r.shifts)]
        for r in rows
    ]  # fmt: skip
    columns = ["pixels", "IoU of cells, %", "same first cell, %", "queries", "other class, %"]
    return ResultTable("Explanations of shifted queries", columns, cells, note)


# -- weights --------------------------------------------------------------------------------------------------------


def weights_of(bench: Workbench, which: str) -> set[str]:
    """Return the names of the classifier's parameters after the cut ("head"), or of all."""
    named = list(bench.classifier.model.named_parameters())
    if which == "all":
        return {name for name, _ in named}
    parts = bench.explainer.cut
    before = {id(p) for p in parts.features.parameters()}
    after = {id(p) for p in parts.head.parameters()} - before
    found = {name for name, p in named if id(p) in after}
    if not found:
        raise PartswapError(
            f"the head after {parts.layer} has no weights of its own.", "Randomise all weights, or cut earlier."
        )
    return found


def randomise(model: nn.Module, names: set[str], *, seed: int = 0) -> nn.Module:
    """Return a copy of a network in which the named parameters start anew.

    Linear and convolutional layers get He's normal weights, which keep signals alive through any depth; norms forget
    what they learned, statistics too, for those are of the old weights; entries of anything else are shuffled.
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


def first_order(explainer: Explainer, query: Encoded, donors: Encoded, target: int) -> Tensor:
    """Return how much swapping each query cell promises: the best first-order gain over all donors, ``(h*w,)``."""
    with torch.no_grad():
        evaluator = explainer.plan.evaluator(query.grids[0], donors.grids, 2**30, query.contexts)
        return next(evaluator.gains(evaluator.start, target, leads=False))[0].amax(1)


def _compare(
    bench: Workbench, other: Explainer, method: Method, task: Task, *, encode: bool
) -> tuple[float, float, float | None] | None:
    """Return overlap, chance and correlation for one query, None if the other network already says the target."""
    query = bench.encodings.select([task.query])
    donors = bench.encodings.select(task.distractors[: method.distractors])
    mine = _query_cells(bench.explainer, method, query, donors, task.target)
    scores = first_order(bench.explainer, query, donors, task.target)
    if encode:
        images = [bench.data.image(k) for k in (task.query, *task.distractors[: method.distractors])]
        encoded = other.encode(images)
        query = replace(encoded.select([0]), aux=query.aux)
        donors = replace(encoded.select(range(1, len(encoded))), aux=donors.aux)
    with torch.no_grad():
        if int(other.cut.head(query.cut_grids).argmax()) == task.target:
            return None
    theirs = _query_cells(other, _at_most(method, len(mine)), query, donors, task.target)
    a, b = set(mine), set(theirs)
    union = len(a | b)
    if not union:
        return None
    chance = chance_overlap(len(a), len(b), other.cut.grid.cells)
    return len(a & b) / union, chance, _spearman(scores, first_order(other, query, donors, task.target))


def chance_overlap(first: int, second: int, cells: int) -> float:
    """Return the mean Jaccard index of two sets of so many cells, drawn at random."""
    from scipy.stats import hypergeom

    shared = np.arange(min(first, second) + 1)
    return float((hypergeom.pmf(shared, cells, first, second) * shared / (first + second - shared)).sum())


def _at_most(method: Method, edits: int) -> Method:
    return changed(method, max_edits=max(1, edits)) if method.takes("max_edits") else method


def _spearman(a: Tensor, b: Tensor) -> float | None:
    from scipy.stats import rankdata

    ranks = [rankdata(x.cpu().numpy()) for x in (a, b)]
    if any(np.ptp(r) == 0 for r in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


# -- shifts ---------------------------------------------------------------------------------------------------------


def shift(canvas: Image.Image, right: int, down: int) -> Image.Image:
    """Return an image of the same size whose content is moved; its reflection comes in at the border."""
    pixels, pad = np.asarray(canvas), max(abs(right), abs(down))
    padded = np.pad(pixels, ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    top, left = pad - down, pad - right
    return Image.fromarray(padded[top : top + pixels.shape[0], left : left + pixels.shape[1]])


def compare_shifted(
    before: Sequence[int], after: Sequence[int], move: tuple[int, int], grid: GridShape, size: int
) -> tuple[float, bool] | None:
    """Return the intersection over union of cells before and after a shift, and whether the first left is the same.

    A cell of the shifted image is moved back by its centre. Cells that the shift brings in or pushes out are not
    compared; None if no others are left.
    """
    right, down = move

    def moved(cell: int, sign: int) -> int | None:
        left, top, end, bottom = grid.box(cell, (size, size))
        return grid.cell_at((left + end) / 2 + sign * right, (top + bottom) / 2 + sign * down, (size, size))

    kept = [cell for cell in before if moved(cell, 1) is not None]
    back = [cell for cell in (moved(cell, -1) for cell in after) if cell is not None]
    if not kept or not back:
        return None
    return len(set(kept) & set(back)) / len(set(kept) | set(back)), kept[0] == back[0]


# -- both -----------------------------------------------------------------------------------------------------------


def _prepare(
    bench: Workbench, method: str | Method, queries: int | None, distractors: int, seed: int
) -> tuple[Method, list[Task]]:
    chosen = bench.explainer.resolve_method(method)
    if chosen.wants_parts:
        raise SettingError(f"{chosen!r} wants annotated parts, which move with the image.", "Check another method.")
    planned = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=distractors, seed=seed)
    return chosen, planned.first(queries, seed=seed).tasks


def _query_cells(explainer: Explainer, method: Method, query: Encoded, donors: Encoded, target: int) -> list[int]:
    cf = explainer.explain(query, donors, target, method=method, keep_misclassified=True)
    return [edit.query_cell for edit in cf.edits]
