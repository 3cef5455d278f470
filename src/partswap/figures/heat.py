"""Heat: what swapping each cell would gain to first order, beside SCOUT's maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.counterfactual import Counterfactual
from partswap.errors import SettingError, ShapeError
from partswap.figures.base import FIGURES
from partswap.figures.style import GREY, INK, SIDE, SMALL, Page, mark, page_width, places
from partswap.grid import HeatMap
from partswap.pictures import used_distractors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colours from nothing to much: of even lightness, so that they read the same for every eye and in grey.
COLORS = "cividis"


@FIGURES.register("heat")
def heat(cf: Counterfactual, *, explainer: Any = None, maps: Mapping[str, HeatMap] | None = None) -> Figure:
    """Draw heat maps over the pictures: `maps` is what `Explainer.heat` returns, or an explainer makes them."""
    if maps is None:
        if explainer is None:
            raise SettingError("heat maps need the model.", "Pass explainer=, or maps= that Explainer.heat returned.")
        maps = explainer.heat(cf)
    for name, (values, _) in maps.items():
        if values.shape != tuple(cf.grid):
            raise ShapeError(f"the map {name!r} has shape {values.shape}.", f"Give one number per cell: {cf.grid}.")
    pictures, used = cf.drawn(), used_distractors(cf)
    mine = [(n, edit.query_cell) for n, edit in enumerate(cf.edits)]
    donor = used[0] if used else 0
    taken = [(n, e.distractor_cell % cf.grid.cells) for n, e in enumerate(cf.edits) if e.distractor_image == donor]
    page = Page(page_width(1 + len(maps)))
    page.heading(cf)
    items: list[tuple[str, bool, NDArray[Any] | None]] = [("query", False, None)]
    items += [(name, of == "distractor", values) for name, (values, of) in maps.items()]
    high = 0.0
    for x, (name, of_donor, values) in zip(places(len(items)), items, strict=True):
        picture = pictures.distractors[donor] if of_donor else pictures.query
        axis = page.image(x, page.y, SIDE, picture if values is None else heated(picture, values))
        mark(axis, cf, taken if of_donor else mine, picture.size, badges=values is None)
        y = page.y + SIDE * picture.height / picture.width + 0.06
        told = "" if values is None else f"{values.min():.2g} to {values.max():.2g}"
        y += page.text(x, y, name, width=SIDE, size=SMALL, lines=2, color=INK, weight="bold")
        high = max(high, y + page.text(x, y, told, width=SIDE, size=SMALL, color=GREY))
    page.y = high + 0.08
    _scale(page)
    return page.done()


def heated(picture: Image.Image, values: NDArray[Any]) -> Image.Image:
    """Return a picture, grey, under the colours of a map."""
    from matplotlib import colormaps

    span = float(values.max() - values.min())
    unit = (values - values.min()) / span if span > 0 else np.zeros_like(values)
    paint = Image.fromarray((255 * colormaps[COLORS](np.asarray(unit, float))[..., :3]).astype(np.uint8))
    over = paint.resize(picture.size, Image.Resampling.NEAREST)
    return Image.blend(picture.convert("L").convert("RGB"), over, 0.55)


def _scale(page: Page) -> None:
    from matplotlib import colormaps

    axis = page.axes(places(1)[0], page.y, 1.2, 0.09)
    axis.imshow(np.linspace(0, 1, 128)[None], aspect="auto", cmap=colormaps[COLORS])
    axis.set_axis_off()
    page.y += max(
        0.12,
        page.text(places(1)[0] + 1.3, page.y - 0.02, "least to most, in each map", width=4, size=SMALL, color=GREY),
    )
