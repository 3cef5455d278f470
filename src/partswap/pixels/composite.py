"""Edits in pixels: the image regions of a counterfactual pasted into the query, and regions outlined.

An edit swaps a cell of a feature grid. The nearest thing in the image is a patch around the cell's center: somewhat
larger than the cell, since a cell sees more than its square, and with soft edges, since a hard edge is a feature, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from partswap.errors import SettingError, ShapeError
from partswap.grid import GridShape
from partswap.results.counterfactual import Counterfactual

Pixels = NDArray[np.uint8]
#: ``(query cell, distractor cell)``, both flat indices.
Pair = tuple[int, int]
#: Left, top, right, bottom as shares of the sides.
RelativeBox = tuple[float, float, float, float]
#: Radius of the blur, as a share of the side: outlines stay, marks and colors of parts do not.
BLUR = 0.035
#: Contrast is changed by no more than this factor when colors are matched.
CONTRAST = 2.0


@dataclass(frozen=True)
class Paste:
    """Settings of pasting.

    Attributes
    ----------
    scale : float
        Side of a patch, in cells.
    feather : float
        Share of a patch, from its edge to its center, over which it fades into the query; 0 is a hard edge. A cell
        itself is covered fully as long as this is at most ``1 - 1 / scale``.
    match : bool
        Whether a patch takes the mean and contrast of the query's colors in the ring between the cell and the edge.
    """

    scale: float = 2.0
    feather: float = 0.5
    match: bool = False

    def __post_init__(self) -> None:
        rules = {
            "scale": (isfinite(self.scale) and 0 < self.scale <= 64, "Use a number of cells above 0; 2 is usual."),
            "feather": (isfinite(self.feather) and 0 <= self.feather <= 1, "Use a share between 0 and 1."),
        }
        for name, (fine, fix) in rules.items():
            if not fine:
                raise SettingError(f"{name} is {getattr(self, name)!r}.", fix)


DEFAULT_PASTE = Paste()


def paste_cells(
    query: Pixels, distractors: Sequence[Pixels], pairs: Sequence[Pair], grid: GridShape, paste: Paste = DEFAULT_PASTE
) -> Pixels:
    """Return the query ``(H, W, 3)`` with a patch of a distractor for every edit.

    The result depends on the set of edits, not on their order: where patches overlap, a pixel is of the one whose
    center is nearest. Patches end at the borders of both images.
    """
    high, wide = query.shape[:2]
    for other in distractors:
        if other.shape != query.shape:
            raise ShapeError(
                f"a distractor has {other.shape[1]} x {other.shape[0]} pixels, the query {wide} x {high}.",
                "Use the parts that the model sees, which have one size.",
            )
    result = query.astype(np.float32)
    closest = np.zeros((high, wide), np.float32)
    down, across = high / grid.h, wide / grid.w
    for cell, distractor_cell in sorted(pairs):
        row, col = grid.row_col(cell)
        image, row_from, col_from = grid.locate(distractor_cell)
        dy, dx = round((row_from - row) * down), round((col_from - col) * across)
        half = paste.scale * down / 2, paste.scale * across / 2
        ys, near_y = _reach((row + 0.5) * down, half[0], high, dy)
        xs, near_x = _reach((col + 0.5) * across, half[1], wide, dx)
        near = np.minimum(near_y[:, None], near_x[None, :])  # 1 at the center, 0 at the edge
        under = query[ys, xs]
        patch = distractors[image][_moved(ys, dy), _moved(xs, dx)].astype(np.float32)
        if paste.match:
            patch = _with_colors_of(under, patch, near < 1 - 1 / max(paste.scale, 1))
        cover = np.minimum(near / paste.feather, 1) if paste.feather else np.ones_like(near)
        cover = cover[..., None]
        blended = np.where(cover == 1, patch, cover * patch + (1 - cover) * under)
        wins = near > closest[ys, xs]
        result[ys, xs][wins] = blended[wins]
        closest[ys, xs][wins] = near[wins]
    return np.clip(np.rint(result), 0, 255).astype(np.uint8)


def composite(
    query: Image.Image,
    distractors: Sequence[Image.Image],
    pairs: Sequence[Pair],
    grid: GridShape,
    paste: Paste = DEFAULT_PASTE,
) -> Image.Image:
    """Return `paste_cells` of images; only distractors that a region is taken from are looked at."""
    used = {grid.split(cell)[0] for _, cell in pairs}
    blank = np.zeros((query.height, query.width, 3), np.uint8)
    others = [pixels_of(image) if k in used else blank for k, image in enumerate(distractors)]
    return Image.fromarray(paste_cells(pixels_of(query), others, pairs, grid, paste))


def composite_edits(
    cf: Counterfactual, *, scale: float = 2.0, feather: float = 0.5, match: bool = False
) -> Image.Image:
    """Return the query of a counterfactual with the regions of all edits pasted in (see `Paste`)."""
    pictures, pairs = cf.drawn(), [(edit.query_cell, edit.distractor_cell) for edit in cf.edits]
    return composite(pictures.query, pictures.distractors, pairs, cf.grid, Paste(scale, feather, match))


def pixels_of(image: Image.Image) -> Pixels:
    """Return an image as an array ``(H, W, 3)``."""
    return np.asarray(image.convert("RGB"))


def _reach(center: float, half: float, side: int, shift: int) -> tuple[slice, NDArray[np.float32]]:
    """Return the pixels of a patch along one axis, inside both images, and how near each is to the center (0 to 1)."""
    low, high = max(0, -shift), min(side, side - shift)
    start, stop = max(low, round(center - half)), min(high, round(center + half))
    places = np.arange(start, stop, dtype=np.float32) + 0.5
    return slice(start, stop), np.maximum(1 - np.abs(places - center) / half, 1e-6, dtype=np.float32)


def _moved(places: slice, shift: int) -> slice:
    return slice(places.start + shift, places.stop + shift)


def _with_colors_of(under: Pixels, patch: NDArray[np.float32], ring: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return a patch with the mean and the contrast that the query has in the ring around."""
    if not ring.any():
        return patch
    around, inside = under[ring].astype(np.float32), patch[ring]
    gain = np.clip((around.std(0) + 1) / (inside.std(0) + 1), 1 / CONTRAST, CONTRAST)
    return np.asarray((patch - inside.mean(0)) * gain + around.mean(0), np.float32)


def highlighted(picture: Image.Image, box: RelativeBox) -> Image.Image:
    """Return the picture, blurred but for a region, which is outlined."""
    return outlined(picture, [box], ["#ffffff"], blur=True)


def outlined(
    picture: Image.Image,
    boxes: Sequence[RelativeBox],
    colors: Sequence[str],
    *,
    blur: bool = False,
    inset: bool = False,
) -> Image.Image:
    """Return the picture with regions outlined, everything else blurred if that is asked for.

    Outlines lie around the regions, or inside them (`inset`), so that those of neighbors stay apart.
    """
    width, height = picture.size
    drawing = picture.convert("RGB")
    places = [[round(v * side) for v, side in zip(box, (width, height) * 2, strict=True)] for box in boxes]
    if blur:
        sharp, drawing = drawing, drawing.filter(ImageFilter.GaussianBlur(BLUR * max(width, height)))
        for left, top, right, bottom in places:
            drawing.paste(sharp.crop((left, top, right, bottom)), (left, top))
    else:
        drawing = drawing.copy()
    draw = ImageDraw.Draw(drawing)
    line = max(2, round(max(width, height) / 120))
    # Two rings, light and dark: they are seen on any picture, and by any eye.
    for (left, top, right, bottom), color in zip(places, colors, strict=True):
        inner = max(1, line - 1)  # with a dark rim on both sides
        rings = ((2 * line, line), (line, line)) if not inset else ((0, inner + 2), (-1, inner))
        for paint, (far, thick) in zip(("#101828", color), rings, strict=True):
            corner = max(left - far, 0), max(top - far, 0)
            draw.rectangle(
                (*corner, min(right + far, width) - 1, min(bottom + far, height) - 1), outline=paint, width=thick
            )
    return drawing
