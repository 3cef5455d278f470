"""Edits: query, distractors and composite, and under them each swap as a zoomed pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.marks import swap_card
from partswap.drawing.figures.panels import composite_panel, draw_panels, image_panels
from partswap.drawing.figures.style import FigurePage, Width, columns_of, rows_of
from partswap.drawing.html import first_edits
from partswap.errors import ShapeError
from partswap.results.counterfactual import Counterfactual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Swaps that are drawn, on the screen and in print; the rest are counted.
DRAWN, DRAWN_IN_PRINT = 15, 6


@FIGURES.register("edits")
def edits(cf: Counterfactual, *, parts: Sequence[str | None] | None = None, width: Width = None) -> Figure:
    """Draw everything there is to see of a counterfactual; `parts` names the part of each edit, where it is known."""
    if parts is not None and len(parts) != len(cf):
        raise ShapeError(f"there are {len(parts)} parts for {len(cf)} edits.", "Give one per edit, None if unknown.")
    panels = [*image_panels(cf), *([composite_panel(cf)] if cf.edits else [])]
    page = FigurePage(width, len(panels))
    page.heading(cf)
    draw_panels(page, cf, panels)
    numbers = first_edits(cf, DRAWN_IN_PRINT if page.in_print else DRAWN)
    # Few swaps are drawn larger.
    across = columns_of(len(numbers), page.columns)
    wide = (page.inner - (across - 1) * page.gap) / across
    if len(numbers) == 1:
        wide = min(wide, 2 * page.side + page.gap)  # below two pictures
    for row in rows_of(numbers, across):
        highest = 0.0
        for place, number in enumerate(row):
            x = page.left + place * (wide + page.gap)
            part = None if parts is None else parts[number]
            highest = max(highest, swap_card(page, x, page.y, cf, number, part, wide))
        page.y += highest + page.gap
    page.y -= page.gap
    if len(cf) > len(numbers):
        rest = len(cf) - len(numbers)
        page.y += page.note(page.left, page.y, f"and {rest} more edit{'' if rest == 1 else 's'}", width=page.inner)
    return page.done()
