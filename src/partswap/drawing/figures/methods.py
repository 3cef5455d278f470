"""Methods: several counterfactuals of one query side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.marks import mark, swap_card
from partswap.drawing.figures.style import FigurePage, Width, edit_count, rows_of
from partswap.drawing.html import first_edits
from partswap.drawing.palette import INK, MISSED, TARGET
from partswap.errors import SettingError
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Swaps that are drawn per method; the rest are counted.
DRAWN = 3


@FIGURES.register("methods")
def methods(
    cf: Counterfactual, *, others: Sequence[Counterfactual] = (), titles: Sequence[str] = (), width: Width = None
) -> Figure:
    """Draw one column per counterfactual: the query, the first swaps and the one that flips, and how it ends."""
    explanations = [cf, *others]
    if len({(each.query_class, each.target, each.grid) for each in explanations}) > 1:
        raise SettingError("these counterfactuals are not of one query and one target.", "Give those of one query.")
    if titles and len(titles) != len(explanations):
        raise SettingError(
            f"there are {len(titles)} titles for {len(explanations)} counterfactuals.", "Give one for each."
        )
    names = titles or [each.title or f"method {k + 1}" for k, each in enumerate(explanations)]
    page = FigurePage(width, len(explanations))
    original = (
        "" if cf.before.original_class_probability is None else f" ({percent(cf.before.original_class_probability)})"
    )
    note = f"what each method would swap; the model says {cf.class_name(cf.query_class)}{original}"
    page.heading(cf, note, whole=False)  # words and pixels are of one method only
    for row in rows_of(list(zip(explanations, names, strict=True)), page.columns):
        ends = [_column(page, x, page.y, each, name) for x, (each, name) in zip(page.places, row, strict=False)]
        page.y = max(ends) + page.gap
    page.y -= page.gap
    return page.done()


def _column(page: FigurePage, x: float, y: float, cf: Counterfactual, name: str) -> float:
    """Draw what one method swaps, and return how far down it reaches."""
    wide = page.side
    y += page.text(x, y, name, width=wide, lines=2, weight="bold") + 0.04
    picture = cf.drawn().query
    axis = page.image(x, y, wide, picture)
    mark(page, axis, cf, [(n, e.query_cell) for n, e in enumerate(cf.edits)], picture.size)
    y += wide * picture.height / picture.width + 0.05
    outcome = f"{edit_count(cf)}, {'flips' if cf.flipped else 'does not flip'}"
    y += page.note(x, y, outcome, width=wide, color=INK)
    if cf.pixel is not None:
        color = TARGET if cf.pixel.predicted == cf.target else MISSED
        y += page.note(x, y, f"in pixels: {cf.class_name(cf.pixel.predicted)}", width=wide, lines=2, color=color)
    y += 0.08
    drawn = first_edits(cf, DRAWN)
    for number in drawn:
        y += swap_card(page, x, y, cf, number, None, wide) + 0.1
    if len(cf) > len(drawn):
        y += page.note(x, y, f"and {len(cf) - len(drawn)} more", width=wide)
    return y
