"""Methods: several counterfactuals of one query side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from partswap.counterfactual import Counterfactual
from partswap.errors import SettingError
from partswap.figures.base import FIGURES
from partswap.figures.style import (
    GREY,
    INK,
    MISSED,
    SIDE,
    SMALL,
    TARGET,
    TEXT,
    Page,
    mark,
    page_width,
    places,
    swap_card,
)
from partswap.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Swaps that are drawn per method; the rest are counted.
SHOWN = 3


@FIGURES.register("methods")
def methods(cf: Counterfactual, *, others: Sequence[Counterfactual] = (), titles: Sequence[str] = ()) -> Figure:
    """Draw one column per counterfactual: the query, the first swaps, and how it ends."""
    found = [cf, *others]
    if len({(one.query_class, one.target, one.grid) for one in found}) > 1:
        raise SettingError("these counterfactuals are not of one query and one target.", "Give those of one query.")
    if titles and len(titles) != len(found):
        raise SettingError(f"there are {len(titles)} titles for {len(found)} counterfactuals.", "Give one for each.")
    names = titles or [one.title or f"method {k + 1}" for k, one in enumerate(found)]
    page = Page(page_width(max(3, len(found))))
    own = "" if cf.before.own is None else f" ({percent(cf.before.own)})"
    page.heading(
        replace(cf, words=None, pixel=None),  # of one method only
        f"what each method would swap; the model says {cf.class_name(cf.query_class)}{own}",
    )
    top, ends = page.y, []
    for x, one, name in zip(places(len(found)), found, names, strict=True):
        ends.append(_column(page, x, top, one, name))
    page.y = max(ends)
    return page.done()


def _column(page: Page, x: float, y: float, cf: Counterfactual, name: str) -> float:
    """Draw what one method found, and return how far down it reaches."""
    y += page.text(x, y, name, width=SIDE, size=TEXT, lines=2, weight="bold") + 0.05
    picture = cf.drawn().query
    mark(page.image(x, y, SIDE, picture), cf, [(n, e.query_cell) for n, e in enumerate(cf.edits)], picture.size)
    y += SIDE * picture.height / picture.width + 0.06
    outcome = f"{len(cf)} edit{'' if len(cf) == 1 else 's'}, {'flips' if cf.flipped else 'does not flip'}"
    y += page.text(x, y, outcome, width=SIDE, size=SMALL, color=INK)
    told = "" if cf.pixel is None else f"in pixels: {cf.class_name(cf.pixel.predicted)}"
    y += page.text(x, y, told, width=SIDE, size=SMALL, color=TARGET if cf.pixel else MISSED) + 0.08
    for number in range(min(SHOWN, len(cf))):
        y += swap_card(page, x, y, cf, number, None) + 0.08
    if len(cf) > SHOWN:
        y += page.text(x, y, f"and {len(cf) - SHOWN} more", width=SIDE, size=SMALL, color=GREY)
    return y
