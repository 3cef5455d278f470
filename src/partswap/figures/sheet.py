"""Sheet: the query and all distractors, with what was taken from each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

from partswap.counterfactual import Counterfactual
from partswap.figures.base import FIGURES
from partswap.figures.style import GREY, INK, MARGIN, SMALL, Page, columns_of, mark, rows_of
from partswap.pictures import used_distractors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: side of a picture, and the space between two.
SMALLER, SPACE = 1.3, 0.12
#: How much of a distractor that nothing was taken from is left.
FADED = 0.35


@FIGURES.register("sheet")
def sheet(cf: Counterfactual) -> Figure:
    """Draw every image the search saw; those it took nothing from are faded."""
    pictures = cf.drawn()
    used = used_distractors(cf)
    order = [*used, *(k for k in range(cf.distractors) if k not in used)]
    columns = max(4, columns_of(1 + len(order), 7))
    page = Page(2 * MARGIN + columns * SMALLER + (columns - 1) * SPACE)
    page.heading(cf, f"{len(used)} of {cf.distractors} distractors were used, by {len(cf)} edits; the others are faded")
    mine = [(n, edit.query_cell) for n, edit in enumerate(cf.edits)]
    items = [("query", pictures.query, mine, True)]
    for k in order:
        taken = [(n, e.distractor_cell % cf.grid.cells) for n, e in enumerate(cf.edits) if e.distractor_image == k]
        items.append((cf.distractor_name(k), pictures.distractors[k], taken, k in used))
    for row in rows_of(items, columns):
        high = 0.0
        for at, (name, picture, marks, bright) in enumerate(row):
            x = MARGIN + at * (SMALLER + SPACE)
            picture = picture.convert("RGB")
            shown = picture if bright else Image.blend(Image.new("RGB", picture.size, "white"), picture, FADED)
            mark(page.image(x, page.y, SMALLER, shown), cf, marks, picture.size)
            tall = SMALLER * picture.height / picture.width + 0.04
            paint = INK if bright else GREY
            high = max(high, tall + page.text(x, page.y + tall, name, width=SMALLER, size=SMALL - 1, color=paint))
        page.y += high + 0.08
    page.y -= 0.08
    return page.done()
