"""Tables: the same rows for the terminal, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from partswap.metrics import METRICS
from partswap.runs.folder import Run
from partswap.utils.files import read_json, write_text
from partswap.utils.terminal import FittedTable


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

    def rich(self) -> FittedTable:
        """Return it for the terminal."""
        rows = [[self.show(cell) for cell in row] for row in self.rows]
        right = [index for index in range(len(self.columns)) if self._numeric(index)]
        return FittedTable(self.columns, rows, title=self.title, note=self.note, right=right)

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
        paths = [folder / f"{name}.md", folder / f"{name}.csv"]
        for path, text in zip(paths, (self.markdown(), self.csv()), strict=True):
            write_text(path, text, place="out")
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
            known = [scores.get(name, {}) for scores in content.values()]  # a metric may be newer than the run
            found = [(score.get(which), score.get(f"{which}_interval")) for score in known]
            if any(value is not None for value, _ in found):
                rows.append([metric.heading(which), *(metric.show(*score) for score in found)])
    words = (explained_text(made), skipped_text(made), missing_text(made), *made.record.get("notes", ()))
    note = " ".join(filter(None, words))
    return ResultTable(f"Run {made.folder}", ["metric", *content], rows, note)


def missing_text(made: Run) -> str:
    """Return in words which methods of a run went without their semantic term, for want of an auxiliary."""
    if made.record["settings"]["auxiliary"] is not None:
        return ""
    without = [name for name, settings in made.record["methods"].items() if float(settings.get("lam") or 0) > 0]
    return f"No auxiliary: {', '.join(without)} without the semantic term." if without else ""


def explained_text(made: Run) -> str:
    """Return in words which images a run explains: those the model gets right, those it gets wrong, or both."""
    settings, count = made.record["settings"], made.record["tasks"]
    wrong = made.record.get("explained", {}).get("wrong", 0)  # earlier versions explained no mistakes
    where = f"of {settings['data']} {settings['split']}"
    if not wrong:
        return f"{count} images {where}, {settings['model']}."
    if wrong == count:
        return f"{wrong} misclassified images {where}, towards their true class; {settings['model']}."
    both = f"{count - wrong} images that are right and {wrong} misclassified ones, these towards their true class"
    return f"{count} images {where}: {both}; {settings['model']}."


def skipped_text(made: Run) -> str:
    """Return in words what a run left out."""
    skipped = made.record["skipped"]
    empty = skipped["classes_without_distractors"]
    words = []
    if made.record.get("settings", {}).get("only", "right") == "right":
        words.append(f"{skipped['misclassified_queries']} of {made.record['images']} images are misclassified")
    elif skipped["correct_queries"]:
        words.append(f"{skipped['correct_queries']} of {made.record['images']} images are right")
    if skipped.get("unreadable_images"):
        words.append(f"{skipped['unreadable_images']} more cannot be read")
    if empty:
        words.append(
            f"{skipped['queries_without_distractors']} have no distractor (no image of {len(empty)} classes is right)"
        )
    if skipped["not_drawn"]:
        words.append(f"{skipped['not_drawn']} were not drawn")
    return f"Left out: {', '.join(words)}." if words else "Nothing is left out."
