"""Text and tables for the terminal that are never cut: what does not fit is wrapped; columns that do not go below."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Padding = tuple[int, int, int, int]
#: What may stand between two columns, the most readable first, as rich wants it: one more is a divider.
PADDINGS = ((0, 1, 0, 1), (0, 1, 0, 0), (0, 0, 0, 0))
#: What stands at both ends of a line.
ENDS = 2
#: Columns of a terminal that nobody has made wider.
WIDTH = 80
#: What stands between things on one line that are better kept together.
SEAM = "   "


def wrapped(text: str, width: int = WIDTH) -> str:
    """Return text in lines of `width` at most; what follows the first line of each is indented.

    They are broken at a `SEAM` where they have one, else between words; a word that is longer (a path) stays whole.
    """
    return "\n".join(part for line in text.splitlines() for part in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    if cell_len(line) <= width:
        return [line]
    start = re.match(r"\s*(\d+\. )?", line)
    assert start is not None  # it matches nothing, too
    indent = " " * (len(start[0]) if start[1] else len(start[0]) + 2)
    lines: list[str] = []
    for piece in line[len(start[0]) :].split(SEAM):
        if lines and cell_len(lines[-1] + SEAM + piece) <= width:
            lines[-1] += SEAM + piece
            continue
        lines += textwrap.wrap(
            piece,
            width,
            initial_indent=indent if lines else start[0],
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


class FittedTable:
    """A table as wide as the terminal at most.

    Cells are wrapped between words, and no word (a number, the name of a layer) is broken unless it is longer than a
    line. Where even that does not fit, the table is continued below with its first column again.

    Parameters
    ----------
    columns, rows : sequence of str, sequence of sequences of str
        Headings, and what is below.
    title, note : str
        What stands above and below.
    right : collection of int
        Columns of numbers.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        title: str = "",
        note: str = "",
        right: Collection[int] = (),
    ) -> None:
        self.columns, self.rows = _tidy(columns), [_tidy(row) for row in rows]
        self.title, self.note, self.right = title, note, right

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, "table.title")
        width, columns = options.max_width, range(len(self.columns))
        least = sum(map(self._least, columns))
        padding = next((p for p in PADDINGS if least <= _room(width, len(columns), p)), PADDINGS[1])
        for block in self._blocks(width, padding):
            yield self._table(block, width, padding)
        if self.note:
            yield Text(self.note, "table.caption")

    def _cells(self, column: int) -> list[str]:
        return [self.columns[column], *(row[column] for row in self.rows)]

    def _widest(self, column: int) -> int:
        return max(cell_len(line) for cell in self._cells(column) for line in (cell.splitlines() or [""]))

    def _least(self, column: int) -> int:
        return max(cell_len(word) for cell in self._cells(column) for word in (cell.split() or [""]))

    def _blocks(self, width: int, padding: Padding) -> Iterator[list[int]]:
        """Yield the columns that stand side by side; every block begins with the first."""
        block: list[int] = []
        for column in range(len(self.columns)):
            if len(block) > 1 and sum(map(self._least, [*block, column])) > _room(width, len(block) + 1, padding):
                yield block
                block = [0]
            block.append(column)
        yield block

    def _table(self, block: Sequence[int], width: int, padding: Padding) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding)
        for column, size in zip(block, self._widths(block, _room(width, len(block), padding)), strict=True):
            justify = "right" if column in self.right else "left"
            table.add_column(Text(self.columns[column]), justify=justify, width=size, overflow="fold")  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*(Text(row[column]) for column in block))
        return table

    def _widths(self, block: Sequence[int], room: int) -> list[int]:
        """Return how wide columns are: as wide as they want, the widest less until all fit."""
        widths = [max(1, self._widest(column)) for column in block]
        least = [max(1, self._least(column)) for column in block]
        while sum(widths) > room and max(widths) > 1:
            loose = [k for k in range(len(widths)) if widths[k] > least[k]] or range(len(widths))
            widths[max(loose, key=lambda k: widths[k])] -= 1
        return widths


def _tidy(cells: Sequence[str]) -> list[str]:
    """Return cells without needless spaces, beside which a word would be broken."""
    return ["\n".join(" ".join(line.split()) for line in cell.splitlines()) for cell in cells]


def _room(width: int, columns: int, padding: Padding) -> int:
    """Return how much of a line is left for the cells of so many columns."""
    return width - ENDS - (1 + padding[1] + padding[3]) * (columns - 1)
