"""Best: the first edit only, query and distractor side by side, as in the paper's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.marks import zoom_axes
from partswap.drawing.figures.panels import Panel, draw_panel
from partswap.drawing.figures.style import FigurePage, Width, place_of
from partswap.drawing.html import distractor_label
from partswap.drawing.palette import NOTE
from partswap.errors import SettingError
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches on the screen: side of the two pictures and, with a zoomed region half as high, what they take together.
LARGE = 2.7


@FIGURES.register("best")
def best(cf: Counterfactual, *, width: Width = None) -> Figure:
    """Draw the first edit: where it is in both pictures, and both regions zoomed."""
    if not cf.edits:
        raise SettingError("this counterfactual has no edits.", "Draw one that has: kind='sheet' needs none.")
    pictures, edit = cf.drawn(), cf.edits[0]
    page = FigurePage(width, 1, fewest=1, side=2.5 * LARGE)
    arrow = 0.24 if page.in_print else 0.4
    # Two pictures with an arrow between them, and one column of two zoomed regions, as high as a picture.
    large = (page.inner - arrow - 0.5 * page.gap) / 2.5
    zoom = (large - page.gap) / 2
    page.heading(cf, _caption(cf), whole=len(cf) == 1)  # what is known of all edits is not true of one
    cell = edit.image_cell
    distractor = pictures.distractors[edit.distractor_image]
    name = cf.class_name(cf.distractor_class(edit.distractor_image))
    label = distractor_label(cf, edit.distractor_image)
    sides = (
        (cf.class_name(cf.query_class), f"query, {place_of(cf, edit.query_cell)}", pictures.query, edit.query_cell),
        (name, f"{label}, {place_of(cf, cell)}", distractor, cell),
    )
    column = page.left + 2 * large + arrow + page.gap
    bottom = zoom + page.gap
    for number, (title, note, picture, where) in enumerate(sides):
        x = page.left + number * (large + arrow)
        panel = Panel(title, note, picture, [(0, where)], badges=False)
        zoom_axes(page, column, page.y + number * (zoom + page.gap), zoom, cf, picture, (0, where))
        bottom = max(bottom, draw_panel(page, x, cf, panel, width=large), number * (zoom + page.gap) + zoom)
    size = 10 if page.in_print else 16
    middle = page.y + large * pictures.query.height / pictures.query.width / 2 - size / 108
    page.text(page.left + large + arrow / 2, middle, "→", width=0.5, size=size, ha="center", color=NOTE)
    page.y += bottom
    return page.done()


def _caption(cf: Counterfactual) -> str:
    """Return what the first edit does."""
    step = cf.trace[0]
    which = "the only edit" if len(cf) == 1 else f"first of {len(cf)} edits"
    rise = f"{cf.class_name(cf.target)} {percent(cf.before.target_probability)} → {percent(step.target_probability)}"
    verb = "still says" if step.predicted == cf.query_class else "then says"
    return f"{which}: {rise}; the model {verb} {cf.class_name(step.predicted)}"
