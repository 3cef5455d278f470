"""The one style of all figures: a page measured in inches from its top left corner, its colors, its texts.

Places are given rather than left to a layout engine, so that pictures of one size stand in rows. A page
is laid out for the screen, or for print at a width, where text has the size it has on paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image

from partswap.drawing.figures.lines import fitted
from partswap.drawing.palette import INK, LINE, NOTE
from partswap.errors import SettingError
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: "column", "page" (of a paper with two columns), inches, or None: for the screen, as wide as needed.
Width = str | float | None
#: Inches of the widths that have names.
WIDTHS = {"column": 3.25, "page": 6.875}
#: Inches that a figure can be laid out in.
NARROWEST, WIDEST = 2.5, 24.0
#: Inches: side of a picture on the screen, and at least in print.
SIDE, LEAST = 2.05, 1.25


@dataclass(frozen=True)
class Look:
    """Sizes: of texts in points, of spaces in inches."""

    title: float
    text: float
    small: float
    badge: float
    margin: float
    gap: float
    dpi: int


SCREEN = Look(title=13.0, text=9.0, small=8.0, badge=7.0, margin=0.22, gap=0.16, dpi=100)
#: No text below 7 points; a journal has margins of its own.
PRINT = Look(title=9.0, text=8.0, small=7.0, badge=7.0, margin=0.02, gap=0.1, dpi=300)


class FigurePage:
    """A figure that is filled from the top: `y` is how far down it is full, in inches.

    Parameters
    ----------
    width : Width
        How wide it is to be.
    count : int
        How many pictures there are.
    most, fewest : int
        How many of them stand in a row.
    side, least : float
        Inches of a picture's side: on the screen, and at least in print.
    """

    def __init__(
        self, width: Width, count: int, *, most: int = 5, fewest: int = 3, side: float = SIDE, least: float = LEAST
    ) -> None:
        from partswap.drawing.figures.canvas import Canvas

        inches = _inches(width)
        self.look = SCREEN if inches is None else PRINT
        self.gap = self.look.gap
        if inches is None:
            self.columns = max(fewest, columns_of(count, most))
            self.side = side
            self.width = 2 * self.look.margin + self.columns * side + (self.columns - 1) * self.gap
        else:
            self.width = inches
            fit = max(1, int((self.inner + self.gap) / (least + self.gap)))
            self.columns = max(min(fewest, fit), columns_of(count, min(fit, most)))
            self.side = (self.inner - (self.columns - 1) * self.gap) / self.columns
        self.y = self.left = self.look.margin
        self.figure = Canvas(figsize=(self.width, 1.0), facecolor="white", dpi=self.look.dpi)
        self._axes: list[tuple[Axes, tuple[float, float, float, float]]] = []
        self._texts: list[tuple[Any, float, float]] = []

    @property
    def inner(self) -> float:
        """Width between the margins."""
        return self.width - 2 * self.look.margin

    @property
    def in_print(self) -> bool:
        """Whether the page is laid out for print, where space is scarce."""
        return self.look is PRINT

    @property
    def places(self) -> list[float]:
        """Where the columns begin."""
        return [self.left + k * (self.side + self.gap) for k in range(self.columns)]

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Return axes at a place, in inches from the top left."""
        axis = self.figure.add_axes((0.0, 0.0, 0.1, 0.1), label=f"{len(self._axes)}")
        self._axes.append((axis, (x, y, width, height)))
        return axis

    def text(
        self, x: float, y: float, text: str, *, width: float, size: float | None = None, lines: int = 1, **style: Any
    ) -> float:
        """Write a text of at most so many lines below `y`, and return its height."""
        size = self.look.text if size is None else size
        # Drawn on whole pixels, text is a little wider than its outlines.
        fitting = fitted(text, 0.94 * width, size, lines, bold=style.get("weight") == "bold")
        if not fitting:
            return 0.0
        style = {"color": INK, "ha": "left", **style}
        for number, line in enumerate(fitting):
            artist = self.figure.text(
                0, 0, line.replace("\u00a0", " "), fontsize=size, va="top", parse_math=False, **style
            )
            self._texts.append((artist, x, y + number * size * 1.32 / 72))
        return len(fitting) * size * 1.32 / 72

    def note(self, x: float, y: float, text: str, *, width: float, lines: int = 1, **style: Any) -> float:
        """Write a small text in gray, and return its height."""
        return self.text(x, y, text, width=width, size=self.look.small, lines=lines, **{"color": NOTE, **style})

    def image(self, x: float, y: float, width: float, picture: Image.Image) -> Axes:
        """Show a picture in its own proportions, `width` wide."""
        axis = self.axes(x, y, width, width * picture.height / picture.width)
        axis.imshow(picture, interpolation="lanczos", extent=(0, picture.width, picture.height, 0))
        axis.set(xticks=[], yticks=[])
        for spine in axis.spines.values():
            spine.set(color=LINE, linewidth=0.6)
        return axis

    def points(self, axis: Axes) -> float:
        """Return how many points of the page one unit of an axis is."""
        (wide,) = (place[2] for drawn, place in self._axes if drawn is axis)
        low, high = axis.get_xlim()
        return 72 * wide / abs(high - low)

    def heading(self, cf: Counterfactual, note: str = "", *, whole: bool = True) -> None:
        """Write the two classes, and below the result; `whole`: also what is true of all edits together."""
        title = f"{cf.class_name(cf.query_class)}  →  {cf.class_name(cf.target)}"
        self.y += self.text(self.left, self.y, title, width=self.inner, size=self.look.title, lines=3, weight="bold")
        lines = [note or summary(cf)]
        if whole:
            lines += [cf.pixel_text().replace("->", "→"), cf.words.sentence if cf.words else ""]
        for line in lines:
            sentence = line[:1].upper() + line[1:]
            self.y += self.text(self.left, self.y, sentence, width=self.inner, lines=3, color=NOTE)
        self.y += 0.6 * self.gap

    def done(self) -> Figure:
        """Return the figure, as high as it is full."""
        height = self.y + self.look.margin
        self.figure.set_size_inches(self.width, height)
        for axis, (x, y, wide, high) in self._axes:
            axis.set_position((x / self.width, 1 - (y + high) / height, wide / self.width, high / height))
        for text, x, y in self._texts:
            text.set_position((x / self.width, 1 - y / height))
        return self.figure


def _inches(width: Width) -> float | None:
    """Return a width in inches, None for the screen."""
    if width is None:
        return None
    inches = WIDTHS.get(width) if isinstance(width, str) else width
    if isinstance(inches, bool) or not isinstance(inches, int | float) or not NARROWEST <= inches <= WIDEST:
        names = ", ".join(f"{name!r} ({value} inches)" for name, value in WIDTHS.items())
        raise SettingError(f"width is {width!r}.", f"Use {names}, or {NARROWEST:g} to {WIDEST:g} inches.")
    return float(inches)


def summary(cf: Counterfactual) -> str:
    """Return the result in a line."""
    original = (
        "" if cf.before.original_class_probability is None else f" ({percent(cf.before.original_class_probability)})"
    )
    last = cf.trace[-1] if cf.trace else cf.before
    verb = "then says" if cf.flipped or last.predicted != cf.query_class else "still says"
    probability = (
        last.target_probability
        if cf.flipped
        else last.original_class_probability
        if last.predicted == cf.query_class
        else None
    )
    after = cf.class_name(last.predicted) + ("" if probability is None else f" ({percent(probability)})")
    who = f"{cf.title}, {edit_count(cf)}" if cf.title else edit_count(cf)
    return f"{who}: the model says {cf.class_name(cf.query_class)}{original}, {verb} {after}"


def place_of(cf: Counterfactual, cell: int) -> str:
    """Return where a cell is, as text that is broken between row and column only."""
    return cf.grid.place(cell).replace("row ", "row\u00a0").replace("column ", "column\u00a0")


def edit_count(cf: Counterfactual) -> str:
    """Return how many edits there are."""
    return f"{len(cf)} edit{'' if len(cf) == 1 else 's'}"


def columns_of(count: int, most: int = 5) -> int:
    """Return how many of so many pictures stand in a row, so that rows are about equally full."""
    rows = max(1, -(-count // most))
    return max(1, -(-count // rows))


def rows_of(items: Sequence[Any], columns: int) -> list[Sequence[Any]]:
    """Return items in rows."""
    return [items[k : k + columns] for k in range(0, len(items), columns)]
