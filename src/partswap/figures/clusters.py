"""Clusters: which cells of query and distractors the auxiliary takes for the same part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.counterfactual import Counterfactual
from partswap.errors import SettingError, ShapeError
from partswap.figures.base import FIGURES
from partswap.figures.style import GREY, INK, SIDE, SMALL, Page, mark, page_width, places
from partswap.pictures import used_distractors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Ten colours that colour-blind eyes tell apart (Okabe and Ito, and Tol); they repeat after the last.
PALETTE = (
    "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999", "#332288", "#882255",
)  # fmt: skip
#: Distractors that are drawn.
DONORS = 4


@FIGURES.register("clusters")
def clusters(
    cf: Counterfactual, *, explainer: Any = None, labels: NDArray[np.integer[Any]] | None = None, count: int = 8
) -> Figure:
    """Draw every cell in the colour of its cluster; `labels` ``(1 + n, h, w)`` is what `Explainer.clusters` returns."""
    if labels is None:
        if explainer is None:
            raise SettingError(
                "clusters need the auxiliary.", "Pass explainer=, or labels= that its clusters returned."
            )
        labels = explainer.clusters(cf, count)
    if labels.shape != (1 + cf.distractors, *cf.grid):
        raise ShapeError(
            f"labels have shape {labels.shape}.", f"Give one per cell of the query and of {cf.distractors} distractors."
        )
    pictures = cf.drawn()
    used = used_distractors(cf)
    donors = [*used, *(k for k in range(cf.distractors) if k not in used)][:DONORS]
    items = [("query", pictures.query, labels[0], [(n, e.query_cell) for n, e in enumerate(cf.edits)])]
    for k in donors:
        taken = [(n, e.distractor_cell % cf.grid.cells) for n, e in enumerate(cf.edits) if e.distractor_image == k]
        items.append((cf.distractor_name(k), pictures.distractors[k], labels[1 + k], taken))
    page = Page(page_width(max(3, len(items))))
    kinds = len(np.unique(labels))
    page.heading(cf, f"cells of one colour are of one of {kinds} clusters of the auxiliary's features")
    high = 0.0
    for x, (name, picture, found, marks) in zip(places(len(items)), items, strict=True):
        mark(page.image(x, page.y, SIDE, colored(picture, found)), cf, marks, picture.size)
        y = page.y + SIDE * picture.height / picture.width + 0.06
        high = max(high, y + page.text(x, y, name, width=SIDE, size=SMALL, color=INK))
    page.y = high
    same = sum(int(labels[0].flat[e.query_cell]) == int(labels[1:].flat[e.distractor_cell]) for e in cf.edits)
    told = f"{same} of {len(cf)} swaps stay within a cluster"
    page.y += page.text(places(1)[0], page.y + 0.04, told, width=page.inner, size=SMALL, color=GREY) + 0.04
    return page.done()


def colored(picture: Image.Image, found: NDArray[np.integer[Any]]) -> Image.Image:
    """Return a picture, grey, under the colours of its cells' clusters."""
    paint = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in PALETTE], np.uint8)
    over = Image.fromarray(paint[found % len(PALETTE)]).resize(picture.size, Image.Resampling.NEAREST)
    return Image.blend(picture.convert("L").convert("RGB"), over, 0.45)
