"""Trace: the query, the distractors that were used, and what the model says after each edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.lines import width_of
from partswap.drawing.figures.marks import badge
from partswap.drawing.figures.panels import draw_panels, image_panels
from partswap.drawing.figures.style import FigurePage, Width
from partswap.drawing.palette import INK, NOTE, OWN, PALE, RISE, TARGET
from partswap.results.counterfactual import Counterfactual, Step
from partswap.results.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: height of a row; what a badge takes beside a bar; a column of bars with its badges and numbers.
ROW, BADGE, NARROW, WIDE = 0.17, 0.24, 1.5, 4.5
#: Rows of a column before a further one is begun.
FEW = 6


@FIGURES.register("trace")
def trace(cf: Counterfactual, *, width: Width = None) -> Figure:
    """Draw the pictures, and below them the probability before and after every edit as bars."""
    panels = image_panels(cf)
    page = FigurePage(width, len(panels))
    page.heading(cf)
    draw_panels(page, cf, panels)
    gray = "" if cf.before.original_class_probability is None else f"; thin and gray: {cf.class_name(cf.query_class)}"
    legend = f"Probability of {cf.class_name(cf.target)} before (0) and after every edit, green where the model says it"
    page.y += page.note(page.left, page.y, legend + gray, width=page.inner, lines=3) + 0.05
    steps = [cf.before, *cf.trace]
    texts = [percent(step.target_probability) + (", flips" if n == cf.flip else "") for n, step in enumerate(steps)]
    value = max(width_of(text, page.look.small) for text in texts) / 0.94 + 0.02
    most = max(1, int((page.inner + page.gap) / (NARROW + page.gap)))
    columns = min(most, -(-len(steps) // FEW))
    rows = -(-len(steps) // columns)
    wide = min((page.inner - (columns - 1) * page.gap) / columns, WIDE)
    for number, (step, text) in enumerate(zip(steps, texts, strict=True)):
        column, row = divmod(number, rows)
        x, y = page.left + column * (wide + page.gap), page.y + row * ROW
        reached = step.predicted == cf.target
        _bars(page, x, y, wide - value, number, step, reached=reached)
        page.note(x + wide - value, y + 0.015, text, width=value + 0.05, color=INK if reached else NOTE)
    page.y += rows * ROW
    return page.done()


def _bars(page: FigurePage, x: float, y: float, width: float, number: int, step: Step, *, reached: bool) -> None:
    """Draw the probabilities of one step, and the badge of its edit; the step before all edits has number 0."""
    axis = page.axes(x, y, width, ROW)
    axis.set(xlim=(0, width), ylim=(ROW, 0))  # inches
    axis.set_axis_off()
    start, long = BADGE, width - BADGE - 0.06
    axis.barh([0.065], [long], left=start, height=0.08, color=PALE)
    axis.barh([0.065], [long * step.target_probability], left=start, height=0.08, color=TARGET if reached else RISE)
    if step.original_class_probability is not None:
        axis.barh([0.13], [long * step.original_class_probability], left=start, height=0.025, color=OWN)
    badge(page, axis, 0.1, ROW / 2, number - 1)
