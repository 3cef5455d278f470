"""Failures: the worst of many counterfactuals, by a rule and not by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partswap.counterfactual import Counterfactual
from partswap.errors import SettingError
from partswap.figures.base import FIGURES
from partswap.figures.edits import composite_panel, panel, shown
from partswap.figures.style import GREY, MARGIN, TEXT, TITLE, Page, page_width, places
from partswap.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The rule, as the figure says it.
RULE = "first what does not flip, then what does not hold in pixels, then what needs most edits"
#: Distractors that are drawn of each.
DONORS = 2


@FIGURES.register("failures")
def failures(cf: Counterfactual, *, others: Sequence[Counterfactual] = (), count: int = 4) -> Figure:
    """Draw the worst `count` of this and the others, one per row, the worst first."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise SettingError(f"count is {count!r}.", "Use 1 or more.")
    found = worst([cf, *others], count)
    columns = 2 + DONORS
    page = Page(page_width(columns))
    title = f"The worst {len(found)} of {1 + len(others)}"
    page.y += page.text(MARGIN, page.y, title, width=page.inner, size=TITLE, weight="bold")
    page.y += page.text(MARGIN, page.y, f"By this rule: {RULE}.", width=page.inner, lines=2, color=GREY) + 0.16
    for number, one in enumerate(found, 1):
        heading = f"{number}. {one.class_name(one.query_class)} → {one.class_name(one.target)}: {reason(one)}"
        page.y += page.text(MARGIN, page.y, heading, width=page.inner, size=TEXT, lines=2, weight="bold") + 0.06
        first, *rest = shown(one)
        panels = [first, *rest[:DONORS], *([composite_panel(one)] if one.edits else [])]
        page.y += max(panel(page, x, one, *each) for x, each in zip(places(columns), panels, strict=False)) + 0.14
    page.y -= 0.14
    return page.done()


def worst(found: Sequence[Counterfactual], count: int) -> list[Counterfactual]:
    """Return the worst, the worst first; of equals, the earlier."""

    def rank(cf: Counterfactual) -> tuple[bool, bool, int, float]:
        return cf.flipped, cf.pixel is None or cf.pixel.flipped, -len(cf), cf.pixel.after if cf.pixel else 0.0

    return sorted(found, key=rank)[:count]


def reason(cf: Counterfactual) -> str:
    """Return in words what is bad about it."""
    count = f"{len(cf)} edit{'' if len(cf) == 1 else 's'}"
    if not cf.flipped:
        return f"no flip after {count}"
    if cf.pixel is not None and not cf.pixel.flipped:
        return f"{count}, not in pixels (target {percent(cf.pixel.after)})"
    return count
