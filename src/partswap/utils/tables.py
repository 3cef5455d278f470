"""Tables of results: the same rows for the terminal, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from partswap.utils.estimates import Estimate
from partswap.utils.files import write_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Cell = str | float | int | Estimate | None


@dataclass(frozen=True)
class ResultTable:
    """A table of results with a note on how they were obtained; rich prints it.

    Cells are shown as text: numbers with `digits` decimals, estimates with half of their interval, None as a dash.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    digits: int = 1

    def show(self, cell: Cell) -> str:
        """Return a cell as text."""
        if cell is None:
            return "-"
        if isinstance(cell, Estimate):
            return cell.plus_minus(self.digits)
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from partswap.utils.terminal import FittedTable  # which imports rich

        rows = [[self.show(cell) for cell in row] for row in self.rows]
        right = [index for index in range(len(self.columns)) if self._numeric(index)]
        yield FittedTable(self.columns, rows, title=self.title, note=self.note, right=right)

    def markdown(self) -> str:
        """Return it as Markdown, with its title and note."""
        rule = ["---:" if self._numeric(i) else "---" for i in range(len(self.columns))]
        lines = [self.columns, rule, *([self.show(cell) for cell in row] for row in self.rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join(part for part in (f"**{self.title}**", table, self.note) if part) + "\n"

    def csv(self) -> str:
        """Return it as CSV, numbers in full."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        # None is written as an empty cell.
        writer.writerows([cell.mean if isinstance(cell, Estimate) else cell for cell in row] for row in self.rows)
        return out.getvalue()

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write ``name.md`` and ``name.csv``; returns the paths."""
        paths = [folder / f"{name}.md", folder / f"{name}.csv"]
        for path, text in zip(paths, (self.markdown(), self.csv()), strict=True):
            write_text(path, text, place="out")
        return paths

    def _numeric(self, index: int) -> bool:
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(isinstance(cell, float | int | Estimate) for cell in cells)
