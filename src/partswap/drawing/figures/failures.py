"""Failures: the worst of many counterfactuals, chosen by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.panels import composite_panel, draw_panels, image_panels
from partswap.drawing.figures.style import FigurePage, Width, edit_count
from partswap.drawing.palette import NOTE
from partswap.errors import SettingError
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The rule, as the figure says it.
RULE = "what does not flip, then what does not hold in pixels; of each, what has most edits"


@FIGURES.register("failures")
def failures(
    cf: Counterfactual, *, others: Sequence[Counterfactual] = (), count: int = 4, width: Width = None
) -> Figure:
    """Draw the worst `count` failures of this and the others, the worst first, with all their distractors."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise SettingError(f"count is {count!r}.", "Use 1 or more.")
    failed = worst([cf, *others])
    drawn = failed[:count]
    rows = [[*image_panels(each), *([composite_panel(each)] if each.edits else [])] for each in drawn]
    page = FigurePage(width, max(map(len, rows), default=1), fewest=4)
    title = f"{len(failed)} of {1 + len(others)} explanations {'fails' if len(failed) == 1 else 'fail'}"
    checked = sum(each.pixel is not None for each in (cf, *others))
    title += f"; the worst {len(drawn)}" if len(failed) > len(drawn) else ""
    rule = f"Worst first, by this rule: {RULE}." if drawn else "Every one flips the decision"
    rule += "" if drawn else f", and all {checked} that were checked hold in pixels." if checked else "."
    page.y += page.text(page.left, page.y, title, width=page.inner, size=page.look.title, weight="bold")
    page.y += page.text(page.left, page.y, rule, width=page.inner, lines=3, color=NOTE) + page.gap
    for number, (each, panels) in enumerate(zip(drawn, rows, strict=True), 1):
        heading = f"{number}. {each.class_name(each.query_class)} → {each.class_name(each.target)}: {reason(each)}"
        page.y += page.text(page.left, page.y, heading, width=page.inner, lines=2, weight="bold") + 0.05
        draw_panels(page, each, panels)
    page.y -= page.gap
    return page.done()


def worst(explanations: Sequence[Counterfactual]) -> list[Counterfactual]:
    """Return those that fail, the worst first; of equals, the earlier."""

    def rank(cf: Counterfactual) -> tuple[bool, int, float]:
        return cf.flipped, -len(cf), 0.0 if cf.pixel is None else cf.pixel.after

    failed = [cf for cf in explanations if not cf.flipped or (cf.pixel is not None and not cf.pixel.flipped)]
    return sorted(failed, key=rank)


def reason(cf: Counterfactual) -> str:
    """Return in words what is bad about it."""
    if not cf.flipped:
        return f"no flip after {edit_count(cf)}"
    assert cf.pixel is not None
    return f"{edit_count(cf)}, not in pixels (target {percent(cf.pixel.after)})"
