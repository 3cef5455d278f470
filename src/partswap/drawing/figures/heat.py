"""Heat: what swapping each cell would gain to first order, beside SCOUT's maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.drawing.figures.base import FIGURES
from partswap.drawing.figures.panels import Panel, draw_panel
from partswap.drawing.figures.style import FigurePage, Width, rows_of
from partswap.drawing.html import cells_taken, distractor_label, used_distractors
from partswap.drawing.palette import NOTE
from partswap.errors import SettingError, ShapeError
from partswap.grid import HeatMap
from partswap.results.counterfactual import Counterfactual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colors from nothing to much: of even lightness, so that they read the same for every eye and in gray.
COLORS = "cividis"
#: How much of a map's color lies over the picture, and the gray under the colors of the legend.
COVER, MIDDLE = 0.55, 128


@FIGURES.register("heat")
def heat(
    cf: Counterfactual, *, explainer: Any = None, maps: Mapping[str, HeatMap] | None = None, width: Width = None
) -> Figure:
    """Draw heat maps over the pictures: `maps` is what `Explainer.heat` returns, or an explainer makes them."""
    if maps is None:
        if explainer is None:
            raise SettingError("heat maps need the model.", "Pass explainer=, or maps= that Explainer.heat returned.")
        maps = explainer.heat(cf)
    for name, (values, _) in maps.items():
        if values.shape != tuple(cf.grid):
            raise ShapeError(f"the map {name!r} has shape {values.shape}.", f"Give one number per cell: {cf.grid}.")
    pictures = cf.drawn()
    distractor = next(iter(used_distractors(cf)), 0)
    swapped = [(n, edit.query_cell) for n, edit in enumerate(cf.edits)]
    page = FigurePage(width, 1 + len(maps))
    page.heading(cf)
    name = cf.class_name(cf.query_class)
    items: list[tuple[Panel, NDArray[Any] | None]] = [(Panel("query", name, pictures.query, swapped), None)]
    for name, (values, of) in maps.items():
        if of == "distractor":
            picture, marks, note = (
                pictures.distractors[distractor],
                cells_taken(cf, distractor),
                distractor_label(cf, distractor),
            )
        else:
            picture, marks, note = pictures.query, swapped, "query"
        items.append((Panel(name, note, heated(picture, values), marks, badges=False), values))
    for row in rows_of(items, page.columns):
        page.y += max(draw_panel(page, x, cf, panel) for x, (panel, _) in zip(page.places, row, strict=False)) + 0.05
        legends = [(x, numbers) for x, (_, numbers) in zip(page.places, row, strict=False) if numbers is not None]
        page.y += max([_legend(page, x, page.y, numbers) for x, numbers in legends], default=0.0) + page.gap
    page.y -= page.gap
    return page.done()


def heated(picture: Image.Image, values: NDArray[Any]) -> Image.Image:
    """Return a picture, gray, under the colors of a map."""
    span = float(values.max() - values.min())
    share = (values - values.min()) / span if span > 0 else np.zeros_like(values)
    over = Image.fromarray(_colors(share)).resize(picture.size, Image.Resampling.NEAREST)
    return Image.blend(picture.convert("L").convert("RGB"), over, COVER)


def _colors(shares: NDArray[Any]) -> NDArray[np.uint8]:
    from matplotlib import colormaps

    return np.asarray(255 * colormaps[COLORS](np.asarray(shares, float))[..., :3]).astype(np.uint8)


def _legend(page: FigurePage, x: float, y: float, values: NDArray[Any]) -> float:
    """Draw the colors of one map as they look on a picture, with the numbers at both ends; return the height."""
    axis = page.axes(x, y, page.side, 0.09)
    scale = COVER * _colors(np.linspace(0, 1, 128)[None]) + (1 - COVER) * MIDDLE
    axis.imshow(scale.astype(np.uint8), aspect="auto")
    axis.set_axis_off()
    half = page.side / 2
    low, high = (np.format_float_positional(v, precision=2, fractional=False, trim="-") for v in _ends(values))
    page.note(x + page.side, y + 0.11, high, width=half, ha="right", color=NOTE)
    return 0.11 + page.note(x, y + 0.11, low, width=half, color=NOTE)


def _ends(values: NDArray[Any]) -> tuple[float, float]:
    return float(values.min()), float(values.max())
