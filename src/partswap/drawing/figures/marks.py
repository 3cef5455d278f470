"""Marks: what figures draw on pictures and of swaps, each in the color of its edit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from PIL import Image

from partswap.drawing.figures.lines import width_of
from partswap.drawing.figures.style import FigurePage, place_of
from partswap.drawing.html import Marks
from partswap.drawing.palette import EDIT_INK, INK, NOTE, PALE, RISE, TARGET, edit_color
from partswap.inputs.frame import PixelBox
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points: width of an outline, its white rims included, at most; and at most so much of a cell's side.
OUTLINE, OUTLINE_SHARE = 3.4, 0.2
#: Space around the number in a badge, in its font's size; where the cell is too small for the usual one.
PAD, TIGHT_PAD = 0.12, 0.02
#: Cells that a zoomed region is wide.
ZOOM = 2.0


class Place(NamedTuple):
    """Where a badge is: its middle and its sides, in units of the axis."""

    x: float
    y: float
    wide: float
    high: float

    def hides(self, other: Place) -> bool:
        """Return whether it covers more than the rim of another."""
        near = abs(self.x - other.x) < 0.42 * (self.wide + other.wide)
        return near and abs(self.y - other.y) < 0.42 * (self.high + other.high)


def mark(
    page: FigurePage, axis: Axes, cf: Counterfactual, marks: Marks, size: tuple[int, int], *, badges: bool = True
) -> None:
    """Outline cells of a picture in the colors of their edits, inside the cells; several edits of one cell nest."""
    from matplotlib.patches import Rectangle

    points = page.points(axis)
    depth: dict[int, int] = {}
    for number, cell in marks:
        left, top, right, bottom = cf.grid.box(cell, size)
        line = min(OUTLINE, OUTLINE_SHARE * points * min(right - left, bottom - top))
        level = depth.get(cell, 0)
        depth[cell] = level + 1
        inset = (level + 0.5) * line / points
        corner, wide, high = (left + inset, top + inset), right - left - 2 * inset, bottom - top - 2 * inset
        for color, share in (("white", 1.0), (edit_color(number), 0.58)):
            axis.add_patch(
                Rectangle(corner, wide, high, fill=False, edgecolor=color, linewidth=share * line, joinstyle="miter")
            )
    if badges:
        depth.clear()
        placed: list[Place] = []
        for number, cell in marks:
            level = depth.get(cell, 0)
            depth[cell] = level + 1
            cell_badge(page, axis, number, cf.grid.box(cell, size), level, placed)


def cell_badge(
    page: FigurePage, axis: Axes, number: int, box: PixelBox, level: int = 0, placed: list[Place] | None = None
) -> None:
    """Write the number of an edit into the top left corner of its cell; where it does not fit, onto or beside it.

    `placed` are the badges that are on the picture; this one is added.
    """
    left, top, right, bottom = box
    points, font = page.points(axis), page.look.badge
    text = width_of(f"{number + 1}", font, True) * 72
    wide, high = ((side + 2 * PAD * font) / points for side in (text, font))
    fits = (level + 1) * wide <= right - left and high <= bottom - top
    if fits:
        place = Place(left + (level + 0.5) * wide, top + high / 2, wide, high)
    else:
        wide, high = ((side + 2 * TIGHT_PAD * font) / points for side in (text, font))
        place = _free_place(box, wide, high, placed or [], axis.get_xlim()[1], axis.get_ylim()[0])
    if placed is not None:
        placed.append(place)
    badge(page, axis, place.x, place.y, number, PAD if fits else TIGHT_PAD)


def _free_place(
    box: PixelBox, wide: float, high: float, placed: Sequence[Place], right_end: float, bottom_end: float
) -> Place:
    """Return where a badge that is larger than its cell hides no other: on the cell, else above, below or beside it."""
    left, top, right, bottom = box
    x, y = (left + right) / 2, (top + bottom) / 2
    down, aside = max((bottom - top + high) / 2, 0.86 * high), max((right - left + wide) / 2, 0.86 * wide)
    spots = ((x, y), (x, y - down), (x, y + down), (x - aside, y), (x + aside, y))
    for spot in (Place(*each, wide, high) for each in spots):
        inside = wide / 2 <= spot.x <= right_end - wide / 2 and high / 2 <= spot.y <= bottom_end - high / 2
        if inside and not any(spot.hides(other) for other in placed):
            return spot
    return Place(x, y, wide, high)


def badge(page: FigurePage, axis: Axes, x: float, y: float, number: int, pad: float = PAD) -> None:
    """Write the number of an edit at a place of an axis, in its color; before the first one it is -1."""
    box = {
        "facecolor": edit_color(number) if number >= 0 else PALE,
        "edgecolor": "white",
        "linewidth": 0.5,
        "boxstyle": f"round,pad={pad}",
    }
    style: dict[str, Any] = {"weight": "bold", "va": "center", "ha": "center", "color": EDIT_INK}
    axis.text(x, y, f"{number + 1}", fontsize=page.look.badge, bbox=box, **style)


def zoomed(
    cf: Counterfactual, picture: Image.Image, cell: int
) -> tuple[Image.Image, tuple[float, float, float, float]]:
    """Return a square region around a cell, inside the picture, and where the cell lies in it (0 to 1)."""
    left, top, right, bottom = cf.grid.box(cell, picture.size)
    side = min(ZOOM * max(right - left, bottom - top), *picture.size)
    x = min(max((left + right - side) / 2, 0), picture.width - side)
    y = min(max((top + bottom - side) / 2, 0), picture.height - side)
    region = picture.convert("RGB").resize((256, 256), Image.Resampling.BICUBIC, box=(x, y, x + side, y + side))
    return region, ((left - x) / side, (top - y) / side, (right - x) / side, (bottom - y) / side)


def zoom_axes(
    page: FigurePage, x: float, y: float, side: float, cf: Counterfactual, picture: Image.Image, edit: tuple[int, int]
) -> Axes:
    """Show a region zoomed: `edit` is its number and the cell."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    number, cell = edit
    region, (left, top, right, bottom) = zoomed(cf, picture, cell)
    axis = page.image(x, y, side, region)
    for spine in axis.spines.values():
        spine.set(color=edit_color(number), linewidth=1.6)
    # A cell at the border of the picture would be outlined under the frame.
    inset = 256 * 2.2 / (72 * side)
    x1, y1 = max(256 * left, inset), max(256 * top, inset)
    x2, y2 = min(256 * right, 256 - inset), min(256 * bottom, 256 - inset)
    for color, line, style in (((*to_rgb(INK), 0.45), 1.6, "solid"), ("white", 1.0, (0, (3, 2)))):
        lines: dict[str, Any] = {"edgecolor": color, "linewidth": line, "linestyle": style}
        axis.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, **lines))
    return axis


def swap_card(
    page: FigurePage, x: float, y: float, cf: Counterfactual, number: int, part: str | None, width: float
) -> float:
    """Draw one swap: this region, an arrow, that region, the probability before and after; return its height."""
    pictures, edit = cf.drawn(), cf.edits[number]
    between = 0.2 if page.in_print else 0.3
    side = (width - between) / 2
    cell = edit.image_cell
    axis = zoom_axes(page, x, y, side, cf, pictures.query, (number, edit.query_cell))
    zoom_axes(page, x + width - side, y, side, cf, pictures.distractors[edit.distractor_image], (number, cell))
    arrow = 10 if page.in_print else 14
    page.text(x + width / 2, y + side / 2 - arrow / 108, "→", width=0.4, size=arrow, ha="center", color=NOTE)
    cell_badge(page, axis, number, (0, 0, 256, 256))
    last, step = (cf.before, *cf.trace)[number], cf.trace[number]
    high = side + 0.04
    high += max(
        page.note(at, y + high, place_of(cf, where), width=side + between / 3, lines=2)
        for at, where in ((x, edit.query_cell), (x + width - side, cell))
    )
    high += 0.03
    bar(page, x, y + high, width, last.target_probability, step.target_probability, reached=step.predicted == cf.target)
    high += 0.1
    gain = f"{percent(last.target_probability)} → {percent(step.target_probability)}"
    text = f"{part}: {gain}" if part else gain
    reached = step.predicted == cf.target and last.predicted != cf.target
    text += ", flips" if reached else ""
    return high + page.note(x, y + high, text, width=width, lines=2, color=INK if reached else NOTE)


def bar(page: FigurePage, x: float, y: float, width: float, before: float, after: float, *, reached: bool) -> None:
    """Draw a probability of the target as a bar: what it became, and a line at what it was."""
    axis = page.axes(x, y, width, 0.065)
    axis.barh([0], [1], color=PALE, height=1)
    axis.barh([0], [after], color=TARGET if reached else RISE, height=1)
    axis.axvline(before, color=INK, linewidth=1.2)
    axis.set(xlim=(0, 1), ylim=(-0.5, 0.5))
    axis.set_axis_off()
