"""The one style of all figures: a page measured in inches from its top left corner, its colours, its texts.

Places are given and not found by a layout engine: pictures of one size stand in rows, and no page is half white.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from PIL import Image

from partswap.counterfactual import Counterfactual
from partswap.palette import MISSED as MISSED
from partswap.palette import TARGET as TARGET
from partswap.palette import edit_color
from partswap.pictures import Marks
from partswap.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY, PALE, LINE = "#1d2430", "#5b6472", "#eef0f4", "#cfd4dd"
#: Points of text.
TITLE, TEXT, SMALL = 13.0, 9.0, 8.0
#: Inches: around the page, between pictures, side of a picture, a line of text.
MARGIN, GAP, SIDE, ROW = 0.22, 0.16, 2.05, 0.165
#: Cells that a zoomed region is wide.
ZOOM = 2.0


class Page:
    """A figure that is filled from the top: `y` is how far down it is full, in inches."""

    def __init__(self, width: float) -> None:
        from matplotlib.figure import Figure

        self.width = width
        self.y = MARGIN
        self.figure = Figure(figsize=(width, 1.0), facecolor="white")
        self._axes: list[tuple[Axes, tuple[float, float, float, float]]] = []
        self._texts: list[tuple[Any, float, float]] = []

    @property
    def inner(self) -> float:
        """Width between the margins."""
        return self.width - 2 * MARGIN

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Return axes at a place, in inches from the top left."""
        axis = self.figure.add_axes((0.0, 0.0, 0.1, 0.1), label=f"{len(self._axes)}")
        self._axes.append((axis, (x, y, width, height)))
        return axis

    def text(
        self, x: float, y: float, text: str, *, width: float, size: float = TEXT, lines: int = 1, **style: Any
    ) -> float:
        """Write a text of at most so many lines below `y`, and return its height."""
        # Drawn on whole pixels, text is a little wider than its outlines.
        kept = fitted(text, 0.92 * width, size, lines, bold=style.get("weight") == "bold")
        if not kept:
            return 0.0
        style = {"color": INK, "ha": "left", **style}
        for number, line in enumerate(kept):
            made = self.figure.text(0, 0, line, fontsize=size, va="top", parse_math=False, **style)
            self._texts.append((made, x, y + number * size * 1.32 / 72))
        return len(kept) * size * 1.32 / 72

    def image(self, x: float, y: float, width: float, picture: Image.Image) -> Axes:
        """Show a picture in its own proportions, `width` wide."""
        axis = self.axes(x, y, width, width * picture.height / picture.width)
        axis.imshow(picture, interpolation="lanczos", extent=(0, picture.width, picture.height, 0))
        axis.set(xticks=[], yticks=[])
        for spine in axis.spines.values():
            spine.set(color=LINE, linewidth=0.6)
        return axis

    def heading(self, cf: Counterfactual, note: str = "") -> None:
        """Write the two classes, and below what was found."""
        title = f"{cf.class_name(cf.query_class)}  →  {cf.class_name(cf.target)}"
        self.y += self.text(MARGIN, self.y, title, width=self.inner, size=TITLE, lines=2, weight="bold")
        for line in (note or summary(cf), cf.pixel_text().replace("->", "→"), cf.words.sentence if cf.words else ""):
            shown = line[:1].upper() + line[1:]
            self.y += self.text(MARGIN, self.y, shown, width=self.inner, lines=3, color=GREY)
        self.y += 0.1

    def done(self) -> Figure:
        """Return the figure, as high as it is full."""
        height = self.y + MARGIN
        self.figure.set_size_inches(self.width, height)
        for axis, (x, y, wide, high) in self._axes:
            axis.set_position((x / self.width, 1 - (y + high) / height, wide / self.width, high / height))
        for text, x, y in self._texts:
            text.set_position((x / self.width, 1 - y / height))
        return self.figure


def summary(cf: Counterfactual) -> str:
    """Return in a line what was found."""
    count = f"{len(cf)} edit{'' if len(cf) == 1 else 's'}"
    own = "" if cf.before.own is None else f" ({percent(cf.before.own)})"
    last = cf.trace[-1] if cf.trace else cf.before
    verb = "then says" if cf.flipped or last.predicted != cf.query_class else "still says"
    known = last.probability if cf.flipped else last.own if last.predicted == cf.query_class else None
    after = cf.class_name(last.predicted) + ("" if known is None else f" ({percent(known)})")
    who = f"{cf.title}, {count}" if cf.title else count
    return f"{who}: the model says {cf.class_name(cf.query_class)}{own}, {verb} {after}"


def mark(axis: Axes, cf: Counterfactual, marks: Marks, size: tuple[int, int], *, badges: bool = True) -> None:
    """Outline cells of a picture in the colours of their edits; several edits of one cell share its badge."""
    from matplotlib.patches import Rectangle

    seen: dict[int, int] = {}
    for number, cell in marks:
        left, top, right, bottom = cf.grid.box(cell, size)
        for edge, width in (("white", 3.6), (edit_color(number), 2.0)):
            patch = Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=edge, linewidth=width)
            axis.add_patch(patch)
        if badges:
            place = left + seen.get(cell, 0) * 0.5 * (right - left)
            seen[cell] = seen.get(cell, 0) + 1
            badge(axis, place, top, number)


def badge(axis: Axes, x: float, y: float, number: int) -> None:
    """Write the number of an edit at a corner, in its colour."""
    box = {"facecolor": edit_color(number), "edgecolor": "white", "linewidth": 0.6, "boxstyle": "round,pad=0.16"}
    axis.text(x, y, f"{number + 1}", fontsize=6.5, weight="bold", va="center", ha="center", color="#14181f", bbox=box)


def zoomed(
    cf: Counterfactual, picture: Image.Image, cell: int
) -> tuple[Image.Image, tuple[float, float, float, float]]:
    """Return a square region around a cell, inside the picture, and where the cell lies in it (0 to 1)."""
    left, top, right, bottom = cf.grid.box(cell, picture.size)
    side = min(ZOOM * max(right - left, bottom - top), *picture.size)
    x = min(max((left + right - side) / 2, 0), picture.width - side)
    y = min(max((top + bottom - side) / 2, 0), picture.height - side)
    shown = picture.convert("RGB").resize((256, 256), Image.Resampling.BICUBIC, box=(x, y, x + side, y + side))
    return shown, ((left - x) / side, (top - y) / side, (right - x) / side, (bottom - y) / side)


def zoom_axes(
    page: Page, x: float, y: float, side: float, cf: Counterfactual, picture: Image.Image, edit: tuple[int, int]
) -> None:
    """Show a region zoomed: `edit` is its number and the cell."""
    from matplotlib.patches import Rectangle

    number, cell = edit
    shown, (left, top, right, bottom) = zoomed(cf, picture, cell)
    axis = page.image(x, y, side, shown)
    for spine in axis.spines.values():
        spine.set(color=edit_color(number), linewidth=1.8)
    corner, size = (256 * left, 256 * top), (256 * (right - left), 256 * (bottom - top))
    axis.add_patch(Rectangle(corner, *size, fill=False, edgecolor="white", linewidth=1.0, linestyle=(0, (3, 2))))


def swap_card(
    page: Page, x: float, y: float, cf: Counterfactual, number: int, part: str | None, width: float = SIDE
) -> float:
    """Draw one swap: this region, an arrow, that region, and the probability before and after; return its height."""
    pictures, edit = cf.drawn(), cf.edits[number]
    side = (width - 0.3) / 2
    zoom_axes(page, x, y, side, cf, pictures.query, (number, edit.query_cell))
    donor = pictures.distractors[edit.distractor_image]
    zoom_axes(page, x + width - side, y, side, cf, donor, (number, edit.distractor_cell % cf.grid.cells))
    page.text(x + width / 2, y + side / 2 - 0.13, "→", width=0.4, size=14, ha="center", color=GREY)
    axis = page.axes(x, y, 0.2, 0.2)
    axis.set(xlim=(0, 1), ylim=(1, 0))
    axis.set_axis_off()
    badge(axis, 0.05, 0.05, number)
    last, step = (cf.before, *cf.trace)[number], cf.trace[number]
    bar(page, x, y + side + 0.08, width, last.probability, step.probability, reached=step.predicted == cf.target)
    gain = f"{percent(last.probability)} → {percent(step.probability)}"
    text = f"{part}: {gain}" if part else gain
    reached = step.predicted == cf.target and last.predicted != cf.target
    text += ", flips" if reached else ""
    return side + 0.2 + page.text(x, y + side + 0.2, text, width=width, size=SMALL, color=INK if reached else GREY)


def bar(page: Page, x: float, y: float, width: float, before: float, after: float, *, reached: bool) -> None:
    """Draw a probability as a bar: what it was, and what it became."""
    axis = page.axes(x, y, width, 0.075)
    axis.barh([0], [1], color=PALE, height=1)
    axis.barh([0], [after], color=TARGET if reached else "#8fb7d3", height=1)
    axis.axvline(before, color=INK, linewidth=1.2)
    axis.set(xlim=(0, 1), ylim=(-0.5, 0.5))
    axis.set_axis_off()


def columns_of(count: int, most: int = 5) -> int:
    """Return how many of so many pictures stand in a row, so that rows are about equally full."""
    rows = -(-count // most)
    return -(-count // rows)


def page_width(columns: int) -> float:
    """Return the width of a page with so many columns of pictures."""
    return 2 * MARGIN + columns * SIDE + (columns - 1) * GAP


def places(columns: int) -> list[float]:
    """Return where the columns begin."""
    return [MARGIN + k * (SIDE + GAP) for k in range(columns)]


def fitted(text: str, inches: float, size: float, lines: int, *, bold: bool = False) -> list[str]:
    """Return a text as at most so many lines that are no wider than `inches`; what does not fit ends in dots."""
    words = text.replace(" %", "\u00a0%").split(" ")
    kept: list[str] = []
    line = ""
    for number, word in enumerate(words):
        longer = f"{line} {word}".strip()
        if width_of(longer, size, bold) <= inches:
            line = longer
            continue
        if line and len(kept) + 1 < lines:
            kept.append(line)
            line = ""
        rest = " ".join([*([line] if line else []), *words[number:]])
        if len(kept) + 1 >= lines:
            return [*kept, _shortened(rest, inches, size, bold)]
        line = word
        while width_of(line, size, bold) > inches and len(kept) + 1 < lines:  # a word that is wider than a line
            cut = max(1, next((k for k in range(len(line), 0, -1) if width_of(line[:k], size, bold) <= inches), 1))
            kept.append(line[:cut])
            line = line[cut:]
        if width_of(line, size, bold) > inches:
            return [*kept, _shortened(line, inches, size, bold)]
    return [*kept, line] if line else kept


def _shortened(text: str, inches: float, size: float, bold: bool) -> str:
    if width_of(text, size, bold) <= inches:
        return text
    while text and width_of(f"{text}…", size, bold) > inches:
        text = text[:-1]
    return f"{text.rstrip()}…"


@lru_cache(4096)
def width_of(text: str, size: float, bold: bool = False) -> float:
    """Return how wide a text is, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    if not text.strip():
        return 0.0
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0]) / 72


def rows_of(items: Sequence[Any], columns: int) -> list[Sequence[Any]]:
    """Return items in rows."""
    return [items[k : k + columns] for k in range(0, len(items), columns)]
