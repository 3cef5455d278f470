"""Clusters: which cells of query and distractors the auxiliary takes for the same part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.panels import Panel, draw_panels
from partswap.drawing.figures.style import FigurePage, Width
from partswap.drawing.html import cells_taken, distractor_label, used_distractors
from partswap.drawing.palette import cluster_colors
from partswap.errors import SettingError, ShapeError
from partswap.results.counterfactual import Counterfactual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Distractors that are drawn at least, if there are so many; those that edits use always are.
DISTRACTORS = 4
#: How much of a cluster's color lies over the picture.
COVER = 0.6


@FIGURES.register("clusters")
def clusters(
    cf: Counterfactual,
    *,
    explainer: Any = None,
    labels: NDArray[np.integer[Any]] | None = None,
    count: int = 8,
    width: Width = None,
) -> Figure:
    """Draw every cell in the color of its cluster; `labels` ``(1 + n, h, w)`` is what `Explainer.clusters` returns."""
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
    order = sorted(range(cf.distractors), key=cf.distractor_number)
    drawn = order[: max(DISTRACTORS, len(used_distractors(cf)))]
    numbers = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    swapped = [(n, e.query_cell) for n, e in enumerate(cf.edits)]
    kinds = int(numbers.max()) + 1
    panels = [Panel("query", cf.class_name(cf.query_class), colored(pictures.query, numbers[0], kinds), swapped)]
    for k in drawn:
        picture = colored(pictures.distractors[k], numbers[1 + k], kinds)
        panels.append(
            Panel(distractor_label(cf, k), cf.class_name(cf.distractor_class(k)), picture, cells_taken(cf, k))
        )
    page = FigurePage(width, len(panels))
    same = sum(int(labels[0].flat[e.query_cell]) == int(labels[1:].flat[e.distractor_cell]) for e in cf.edits)
    page.heading(
        cf,
        f"cells of one color are of one of {kinds} clusters of the auxiliary's features; {same} of {len(cf)} swaps "
        "stay within a cluster",
        whole=False,
    )
    draw_panels(page, cf, panels)
    page.y -= page.gap
    return page.done()


def colored(picture: Image.Image, numbers: NDArray[np.integer[Any]], kinds: int) -> Image.Image:
    """Return a picture, gray, under the colors of its cells' clusters, which are numbered from 0."""
    colors = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in cluster_colors(kinds)], np.uint8)
    over = Image.fromarray(colors[numbers]).resize(picture.size, Image.Resampling.NEAREST)
    return Image.blend(picture.convert("L").convert("RGB"), over, COVER)
