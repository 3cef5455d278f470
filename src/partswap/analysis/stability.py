"""Are explanations stable? Queries are explained as they are and shifted by some pixels.

An explanation that moves is not about the object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from partswap.analysis.sanity import choose, query_cells
from partswap.errors import SettingError
from partswap.grid import GridShape
from partswap.runs.context import RunContext
from partswap.search import Method
from partswap.utils.estimates import Estimate
from partswap.utils.progress import Track, no_progress, tracked
from partswap.utils.tables import Cell, ResultTable


@dataclass(frozen=True)
class Stability:
    """How explanations change when the query is shifted by some pixels left, right, up and down."""

    pixels: int
    #: Intersection over union of the swapped query cells, moved back.
    iou: Estimate
    #: How often the first edit (of those that stay in the picture) is in the same place.
    same_first: Estimate
    #: After how many of the shifts the model says another class; those are left out.
    changed: int
    shifts: int


def check_stability(
    bench: RunContext,
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
    if not 0 < pixels < preprocess.side:
        raise SettingError(f"pixels is {pixels}.", f"Use a shift from 1 to {preprocess.side - 1}.")
    chosen, tasks = choose(bench, method, queries, distractors, seed)
    moves = [(0, 0), (pixels, 0), (-pixels, 0), (0, pixels), (0, -pixels)]
    ious: list[float] = []
    firsts: list[float] = []
    changed = 0
    for task in tracked(tasks, f"shifted by {pixels}", track):
        canvas = preprocess.crop(bench.data.image(task.query))
        views = explainer.encode([preprocess.tensor(shift(canvas, *move)) for move in moves])
        donors = bench.encodings.select(task.distractors[: chosen.distractors])
        predicted = views.logits.argmax(1)
        still = [k for k in range(1, len(moves)) if predicted[k] == predicted[0] != task.target]
        changed += len(moves) - 1 - len(still)
        cells = {
            k: query_cells(explainer, chosen, views.select([k]), donors, task.target)
            for k in ([0, *still] if still else [])
        }
        pairs = [compare_shifted(cells[0], cells[k], moves[k], explainer.cut.grid, preprocess.side) for k in still]
        comparable = [pair for pair in pairs if pair is not None]
        if comparable:
            iou, first = np.mean(comparable, axis=0).tolist()
            ious.append(iou)
            firsts.append(first)
    shifts = len(tasks) * (len(moves) - 1)
    return Stability(pixels, Estimate.of(ious, seed=seed), Estimate.of(firsts, seed=seed), changed, shifts)


def stability_table(rows: Sequence[Stability], note: str = "") -> ResultTable:
    """Return the outcome as a table."""
    cells: list[list[Cell]] = [
        [r.pixels, r.iou.show(factor=100), r.same_first.show(factor=100), r.iou.count,
         100 * r.changed / max(1, r.shifts)]
        for r in rows
    ]  # fmt: skip
    columns = ["pixels", "IoU of cells, %", "same first cell, %", "queries", "other class, %"]
    return ResultTable("Explanations of shifted queries", columns, cells, note)


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

    visible = [cell for cell in before if moved(cell, 1) is not None]
    back = [cell for cell in (moved(cell, -1) for cell in after) if cell is not None]
    if not visible or not back:
        return None
    return len(set(visible) & set(back)) / len(set(visible) | set(back)), visible[0] == back[0]
