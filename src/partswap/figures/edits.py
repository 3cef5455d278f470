"""Edits: query, distractors and composite, and under them each swap as a zoomed pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partswap.counterfactual import Counterfactual
from partswap.errors import ShapeError
from partswap.figures.base import FIGURES
from partswap.figures.style import (
    GAP,
    GREY,
    INK,
    MARGIN,
    SIDE,
    SMALL,
    Page,
    columns_of,
    mark,
    page_width,
    places,
    rows_of,
    swap_card,
)
from partswap.pictures import Marks, panels_of
from partswap.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

#: Swaps that are drawn; the rest are counted.
SHOWN = 15
#: Inches: width of a swap, at most.
WIDEST = 3.6


@FIGURES.register("edits")
def edits(cf: Counterfactual, *, parts: Sequence[str | None] | None = None) -> Figure:
    """Draw everything there is to see of a counterfactual; `parts` names the part of each edit, where it is known."""
    if parts is not None and len(parts) != len(cf):
        raise ShapeError(f"there are {len(parts)} parts for {len(cf)} edits.", "Give one per edit, None if unknown.")
    panels = [*shown(cf), composite_panel(cf)] if cf.edits else shown(cf)
    columns = max(3, columns_of(len(panels)))
    page = Page(page_width(columns))
    page.heading(cf)
    for row in rows_of(panels, columns):
        page.y += max(panel(page, x, cf, *one) for x, one in zip(places(columns), row, strict=False)) + 0.14
    numbers = list(range(min(len(cf), SHOWN)))
    # Few swaps are drawn larger.
    across = columns_of(len(numbers), columns) if numbers else columns
    width = min((page.inner - (across - 1) * GAP) / across, WIDEST)
    for row in rows_of(numbers, across):
        high = 0.0
        for at, n in enumerate(row):
            part = None if parts is None else parts[n]
            high = max(high, swap_card(page, MARGIN + at * (width + GAP), page.y, cf, n, part, width))
        page.y += high + 0.1
    page.y -= 0.1
    if len(cf) > SHOWN:
        more = f"and {len(cf) - SHOWN} more edits"
        page.y += page.text(places(1)[0], page.y, more, width=page.inner, size=SMALL, color=GREY)
    return page.done()


def shown(cf: Counterfactual) -> list[tuple[str, str, Image, Marks]]:
    """Return the query and the distractors that were used, each with a title, a note, and its cells."""
    found = []
    for role, name, picture, marks in panels_of(cf):
        assert picture is not None
        found.append((name, role, picture, marks))
    return found


def composite_panel(cf: Counterfactual) -> tuple[str, str, Image, Marks]:
    """Return the composite as one more panel, with what the whole network says of it if that is known."""
    note = "pasted, for the eye only"
    if cf.pixel is not None:
        note = f"whole network: {cf.class_name(cf.pixel.predicted)}, target {percent(cf.pixel.after)}"
    return "query, regions pasted", note, cf.composite(), ()


def panel(page: Page, x: float, cf: Counterfactual, title: str, note: str, picture: Image, marks: Marks) -> float:
    """Draw a picture with its cells outlined and two lines below; return the height."""
    axis = page.image(x, page.y, SIDE, picture)
    mark(axis, cf, marks, picture.size)
    y = page.y + SIDE * picture.height / picture.width + 0.06
    y += page.text(x, y, title, width=SIDE + GAP / 2, size=SMALL, lines=2, color=INK, weight="bold")
    return y + page.text(x, y, note, width=SIDE + GAP / 2, size=SMALL, lines=2, color=GREY) - page.y
