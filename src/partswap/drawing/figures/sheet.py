"""Sheet: the query and all distractors, with what was taken from each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.marks import mark
from partswap.drawing.figures.style import FigurePage, Width, edit_count, rows_of
from partswap.drawing.html import Marks, cells_taken, distractor_label, used_distractors
from partswap.drawing.palette import INK, NOTE
from partswap.results.counterfactual import Counterfactual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: side of a picture on the screen, and at least in print.
SMALLER, SMALLEST = 1.3, 0.98
#: How much of a distractor that nothing was taken from is left.
FADED = 0.35


@FIGURES.register("sheet")
def sheet(cf: Counterfactual, *, width: Width = None) -> Figure:
    """Draw every image the search saw; those it took nothing from are faded."""
    pictures = cf.drawn()
    used = used_distractors(cf)
    order = sorted(range(cf.distractors), key=cf.distractor_number)
    page = FigurePage(width, 1 + len(order), most=7, fewest=4, side=SMALLER, least=SMALLEST)
    idle = "" if len(used) == cf.distractors else "; the others are faded"
    page.heading(cf, f"{edit_count(cf)} from {len(used)} of {cf.distractors} distractors{idle}")
    items: list[tuple[str, Image.Image, Marks, bool]] = [
        ("query", pictures.query, [(n, edit.query_cell) for n, edit in enumerate(cf.edits)], True)
    ]
    for k in order:
        items.append((distractor_label(cf, k), pictures.distractors[k], cells_taken(cf, k), k in used))
    for row in rows_of(items, page.columns):
        highest = 0.0
        for x, (name, picture, marks, bright) in zip(page.places, row, strict=False):
            opaque = picture.convert("RGB")
            shade = opaque if bright else Image.blend(Image.new("RGB", picture.size, "white"), opaque, FADED)
            mark(page, page.image(x, page.y, page.side, shade), cf, marks, picture.size)
            high = page.side * picture.height / picture.width + 0.04
            color = INK if bright else NOTE
            high += page.note(x, page.y + high, name, width=page.side, lines=2, color=color)
            highest = max(highest, high)
        page.y += highest + 0.08
    page.y -= 0.08
    return page.done()
