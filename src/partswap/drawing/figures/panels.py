"""Panels: a picture with the cells of its edits outlined, and two lines of text below; figures stand them in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from partswap.drawing.figures.marks import mark
from partswap.drawing.figures.style import FigurePage, rows_of
from partswap.drawing.html import Marks, panels_of
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import percent

if TYPE_CHECKING:
    from PIL.Image import Image


class Panel(NamedTuple):
    """What is drawn of one image."""

    title: str
    note: str
    picture: Image
    marks: Marks
    badges: bool = True


def image_panels(cf: Counterfactual) -> list[Panel]:
    """Return the query and the distractors that edits use, in their order."""
    panels = []
    for role, name, picture, marks in panels_of(cf):
        assert picture is not None
        panels.append(Panel(name, role, picture, marks))
    return panels


def composite_panel(cf: Counterfactual) -> Panel:
    """Return the composite as one more panel, with what the whole network says of it if that is known."""
    note = "pasted, for the eye only"
    if cf.pixel is not None:
        note = f"in pixels: {cf.class_name(cf.pixel.predicted)}, target {percent(cf.pixel.after)}"
    return Panel("query, regions pasted", note, cf.composite(), ())


def draw_panel(page: FigurePage, x: float, cf: Counterfactual, panel: Panel, *, width: float | None = None) -> float:
    """Draw a panel at the height where the page is full; return the panel's height."""
    width = page.side if width is None else width
    axis = page.image(x, page.y, width, panel.picture)
    mark(page, axis, cf, panel.marks, panel.picture.size, badges=panel.badges)
    high = width * panel.picture.height / panel.picture.width + 0.05
    size = page.look.small
    high += page.text(x, page.y + high, panel.title, width=width, size=size, lines=3, weight="bold")
    return high + page.note(x, page.y + high, panel.note, width=width, lines=3)


def draw_panels(page: FigurePage, cf: Counterfactual, panels: Sequence[Panel]) -> None:
    """Draw panels in rows, and fill the page so far."""
    for row in rows_of(panels, page.columns):
        highest = max(draw_panel(page, x, cf, panel) for x, panel in zip(page.places, row, strict=False))
        page.y += highest + page.gap
