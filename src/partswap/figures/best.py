"""Best: the first edit only, query and distractor side by side, as in the paper's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partswap.counterfactual import Counterfactual
from partswap.errors import SettingError
from partswap.figures.base import FIGURES
from partswap.figures.style import GAP, GREY, INK, MARGIN, SMALL, TEXT, Page, mark, zoom_axes
from partswap.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: side of the two pictures.
LARGE = 2.7


@FIGURES.register("best")
def best(cf: Counterfactual) -> Figure:
    """Draw the first edit: where it is in both pictures, and both regions zoomed."""
    if not cf.edits:
        raise SettingError("this counterfactual has no edits.", "Draw one that has: kind='sheet' needs none.")
    pictures, edit, step = cf.drawn(), cf.edits[0], cf.trace[0]
    zoom = (LARGE - GAP) / 2
    page = Page(2 * MARGIN + 2 * LARGE + 2 * GAP + zoom)
    own = "" if cf.before.own is None else f" ({percent(cf.before.own)})"
    rise = f"{percent(cf.before.probability)} → {percent(step.probability)}"
    says = cf.class_name(step.predicted)
    page.heading(
        cf, f"first of {len(cf)} edits: {cf.class_name(cf.target)} {rise}; the model said "
        f"{cf.class_name(cf.query_class)}{own}, with this edit {says}"
    )  # fmt: skip
    donor = pictures.distractors[edit.distractor_image]
    sides = (
        (MARGIN, pictures.query, edit.query_cell, cf.class_name(cf.query_class), "query"),
        (
            MARGIN + LARGE + GAP,
            donor,
            edit.distractor_cell % cf.grid.cells,
            cf.class_name(cf.distractor_class(edit.distractor_image)),
            cf.distractor_name(edit.distractor_image),
        ),
    )
    column = MARGIN + 2 * (LARGE + GAP)
    bottom = 0.0
    for number, (x, picture, cell, name, role) in enumerate(sides):
        axis = page.image(x, page.y, LARGE, picture)
        mark(axis, cf, [(0, cell)], picture.size, badges=False)
        zoom_axes(page, column, page.y + number * (zoom + GAP), zoom, cf, picture, (0, cell))
        y = page.y + LARGE * picture.height / picture.width + 0.06
        y += page.text(x, y, name, width=LARGE, size=TEXT, lines=2, color=INK, weight="bold")
        y += page.text(x, y, role, width=LARGE, size=SMALL, color=GREY)
        bottom = max(bottom, y, page.y + 2 * zoom + GAP)
    page.text(column, page.y + 2 * zoom + GAP + 0.06, "this region → that", width=zoom + MARGIN, size=SMALL, color=GREY)
    page.y = bottom
    return page.done()
