"""Supplement of ours: with the regions pasted into the query, does the whole network say the target?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from partswap.analysis.paper.context import TABLES, Result, TableContext
from partswap.pixels.check import random_pairs
from partswap.results.counterfactual import Counterfactual, Edit, PixelCheck
from partswap.runs.figures import with_pictures
from partswap.runs.tasks import Task
from partswap.utils.estimates import Estimate
from partswap.utils.progress import tracked
from partswap.utils.tables import Cell, ResultTable

METHODS: tuple[tuple[str, str, dict[str, float], bool], ...] = (
    ("partswap", "partswap (ours)", {}, False),
    ("partswap", "partswap (ours), pixel=True", {}, True),
    ("paper", "Vandenhende et al., k = 10 %", {"keep": 0.1}, False),
    ("goyal", "Goyal et al., one distractor", {}, False),
)
COLUMNS = ["pasted", "network says the target %", "target before %", "target after %", "gain", "#Edits"]

Explained = Sequence[tuple[Task, Counterfactual]]


@TABLES.register("pixels")
def pixels(lab: TableContext) -> Result:
    """Return how often the whole network says the target of the composite, against two controls."""
    rows: list[list[Cell]] = []
    checked: list[tuple[Explained, list[PixelCheck]]] = []
    for method, title, settings, pixel in METHODS:
        explained = list(lab.run(method, settings, pixel=pixel).explained(method).values())
        checked.append((explained, _checked(lab, title, explained)))
        rows.append([title, *_cells(checked[-1][1], [len(cf) for _, cf in explained])])
    ours = checked[0][0]
    for title, cells in (("random cells, random donors", True), ("our cells, random donors", False)):
        drawn = [(task, _control(cf, lab.config.seed + k, cells=cells)) for k, (task, cf) in enumerate(ours)]
        rows.append([title, *_cells(_checked(lab, title, drawn), [len(cf) for _, cf in drawn])])
    table = ResultTable("Edits in pixels", COLUMNS, rows, f"{lab.note()} {_note(checked[0], checked[1])}", digits=1)
    return Result(table)


def _checked(lab: TableContext, title: str, explained: Explained) -> list[PixelCheck]:
    """Return the pixel check of each, made now where the run did not."""
    bench, checks = lab.bench, []
    for task, cf in tracked(explained, f"pixels of {title}", lab.track):
        if cf.pixel is None:
            cf = bench.explainer.pixel_check(with_pictures(cf, task, bench.data, bench.explainer.preprocess))
        assert cf.pixel is not None
        checks.append(cf.pixel)
    return checks


def _control(cf: Counterfactual, seed: int, *, cells: bool) -> Counterfactual:
    """Return a counterfactual with random swaps in place of its own; its trace is not of these."""
    drawn = random_pairs(cf, seed, cells=cells)
    return replace(cf, edits=tuple(Edit.of(i, j, cf.grid) for i, j in drawn), pixel=None)


def _cells(checks: Sequence[PixelCheck], edits: Sequence[int]) -> list[Cell]:
    share: tuple[Callable[[PixelCheck], float], ...] = (
        lambda c: float(c.flipped),
        lambda c: c.before,
        lambda c: c.after,
        lambda c: c.after - c.before,
    )
    return [*(_mean([100.0 * of(c) for c in checks], 1) for of in share), _mean(edits, 2)]


def _mean(values: Sequence[float], digits: int) -> Cell:
    return Estimate.of(values, digits=digits)


def _note(plain: tuple[Explained, list[PixelCheck]], preferred: tuple[Explained, list[PixelCheck]]) -> str:
    """Return what pixel=True costs and brings, over the same images."""
    more = [float(len(b) - len(a)) for (_, a), (_, b) in zip(plain[0], preferred[0], strict=True)]
    gain = [100.0 * (int(b.flipped) - int(a.flipped)) for a, b in zip(plain[1], preferred[1], strict=True)]
    return (
        "Patches of twice the cell's size with soft edges, of all edits of an explanation. "
        f"Over the same images pixel=True brings {Estimate.of(gain).show()} points and takes "
        f"{Estimate.of(more).show(digits=2)} edits more."
    )
