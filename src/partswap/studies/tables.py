"""Tables: the same rows for the terminal, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.table import Table

from partswap.metrics import METRICS
from partswap.runs.folder import Run
from partswap.store import read_json


class Measured(NamedTuple):
    """A number with its 95 % confidence interval; shown with the table's number of decimals, or its own."""

    value: float
    low: float
    high: float
    digits: int | None = None


Cell = str | float | int | Measured | None


@dataclass(frozen=True)
class ResultTable:
    """A table of results with a note on how they were made.

    Cells are shown as text: numbers with `digits` decimals, None as a dash.
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
        if isinstance(cell, Measured):
            digits = self.digits if cell.digits is None else cell.digits
            return f"{cell.value:.{digits}f} ±{(cell.high - cell.low) / 2:.{digits}f}"
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)

    def rich(self) -> Table:
        """Return it for the terminal."""
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.caption, table.caption_justify = self.note or None, "left"
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if self._numeric(index) else "left")
        for row in self.rows:
            table.add_row(*(self.show(cell) for cell in row))
        return table

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
        writer.writerows([cell.value if isinstance(cell, Measured) else cell for cell in row] for row in self.rows)
        return out.getvalue()

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write ``name.md`` and ``name.csv``; returns the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.md", folder / f"{name}.csv"]
        for path, text in zip(paths, (self.markdown(), self.csv()), strict=True):
            path.write_text(text)
        return paths

    def _numeric(self, index: int) -> bool:
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(isinstance(cell, float | int | Measured) for cell in cells)


def metrics_table(made: Run) -> ResultTable:
    """Return the metrics of a finished run, one column per method."""
    content = read_json(made.folder / "metrics.json")
    rows = []
    for name in METRICS.names():
        metric = METRICS.get(name)()
        for which in metric.ways:
            found = [(scores[name][which], scores[name][f"{which}_interval"]) for scores in content.values()]
            if any(value is not None for value, _ in found):
                rows.append([metric.heading(which), *(metric.show(*score) for score in found)])
    settings = made.record["settings"]
    note = f"{made.record['tasks']} images of {settings['data']} {settings['split']}, {settings['model']}."
    return ResultTable(f"Run {made.folder}", ["metric", *content], rows, f"{note} {skipped_text(made)}")


def skipped_text(made: Run) -> str:
    """Return in words what a run left out."""
    skipped = made.record["skipped"]
    empty = skipped["classes_without_distractors"]
    words = [f"{skipped['misclassified_queries']} of {made.record['images']} images are misclassified"]
    if skipped.get("unreadable_images"):
        words.append(f"{skipped['unreadable_images']} more cannot be read")
    if empty:
        words.append(
            f"{skipped['queries_without_distractors']} have no distractor (no image of {len(empty)} classes is right)"
        )
    if skipped["not_drawn"]:
        words.append(f"{skipped['not_drawn']} were not drawn")
    return f"Left out: {', '.join(words)}."
