"""The command line of data sets: get them, check them, look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from partswap.cli.options import DataOptions, console, output_picture, say
from partswap.runs.config import DATASET_NAMES
from partswap.utils.options import parse_options
from partswap.utils.progress import bars, step

app = typer.Typer(help="Data sets: get them, check them, look at them.", no_args_is_help=True)

#: Problems of one kind that are written out; the rest are counted.
WRITTEN_OUT = 10

Name = Annotated[str, typer.Argument(help=f"Data set: {DATASET_NAMES}.")]
Where = Annotated[Path | None, typer.Argument(help="Its folder (the aviary has none).")]


@app.command("list")
def list_() -> None:
    """List the data sets."""
    from partswap.data import DATASETS

    rows = []
    for name in DATASETS:
        kind = DATASETS.get(name)
        what = (kind.__doc__ or "").strip().partition("\n")[0]
        source = "a folder" if kind.needs_path else "nothing"
        rows.append([name, ", ".join(kind.splits), source, "yes" if kind.archives else "", what])
    from partswap.utils.tables import ResultTable  # which imports numpy

    console.print(ResultTable("", ["name", "splits", "from", "get", "what"], rows))


@app.command()
def check(
    name: Name,
    path: Where = None,
    split: Annotated[str | None, typer.Option(help="One split; all if not given.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Threads that read images.")] = 4,
    option: DataOptions = None,
) -> None:
    """Read everything and say all that is wrong; exit code 1 if anything is.

    What is only odd, and harmless, is a note.
    """
    from partswap.data.care.check import check_dataset

    report = check_dataset(name, path, split=split, workers=workers, console=console, **parse_options(option))
    _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _print_report(report: Any) -> None:
    rows = []
    for split, counts in report.splits.items():
        least, middle, most = counts.per_class
        spread = f"{least} to {most}, median {middle:g}"
        rows.append([split, counts.images, spread, counts.with_keypoints, counts.with_mask])
    headings = ["split", "images", "per class", "with keypoints", "with mask"]
    from partswap.utils.tables import ResultTable

    console.print(ResultTable("", headings, rows))
    facts = [f"{report.classes} classes", f"{report.parts} parts"]
    facts += [f"{count} {mode} images" for mode, count in report.modes.most_common()]
    if report.widths and report.heights:
        facts.append("{} to {} x {} to {} pixels".format(*report.widths, *report.heights))
    say(", ".join(facts))
    for title, entries in (("problem", report.problems), ("note", report.notes)):
        for kind in dict.fromkeys(p.kind for p in entries):
            _print_kind(title, kind, [p for p in entries if p.kind == kind])
    count = len(report.problems)
    wrong = f"{count} problems" if count > 1 else "1 problem"
    console.print(Text("nothing is wrong", "green") if report.ok else Text(wrong, "red"))
    if report.notes:
        say(f"{len(report.notes)} notes, all harmless" if len(report.notes) > 1 else "1 note, harmless")


def _print_kind(title: str, kind: str, entries: list[Any]) -> None:
    console.print(Text(f"{kind}: {len(entries)}", "bold red" if title == "problem" else "bold"))
    for entry in entries[:WRITTEN_OUT]:
        say(f"  {entry.what}" if entry.where in entry.what else f"  {entry.where}: {entry.what}")
    if len(entries) > WRITTEN_OUT:
        say(f"  … and {len(entries) - WRITTEN_OUT} more")


@app.command()
def show(
    name: Name,
    path: Where = None,
    out: Annotated[Path, output_picture("PNG or JPEG to write.")] = Path("sheet.png"),
    split: Annotated[str, typer.Option(help="Which images.")] = "test",
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 40,
    columns: Annotated[int, typer.Option(min=1, help="How many side by side.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Which images, at random.")] = 0,
    option: DataOptions = None,
) -> None:
    """Draw a contact sheet with keypoints, masks and class names."""
    from partswap.data import open_dataset
    from partswap.data.care.sheet import contact_sheet
    from partswap.inputs.images import save_image

    with step(bars, "opening the data set"):
        data = open_dataset(name, path, split, **parse_options(option))
    with step(bars, "drawing"):
        sheet = contact_sheet(data, count, columns, seed)
    save_image(sheet, out, place="out")
    for left_out, reason in data.skipped:
        say(f"left out {left_out}: {reason}")
    say(f"drew {out}")


@app.command()
def get(
    name: Name,
    into: Annotated[Path, typer.Argument(help="Folder to make it in.")],
    archive: Annotated[
        list[Path] | None, typer.Option(help="A local archive to unpack instead of downloading; may be repeated.")
    ] = None,
) -> None:
    """Download and unpack a data set, or unpack archives that are already here."""
    from partswap.data.care import archives

    folders = archives.get(name, into, archive or None)
    say(f"made {', '.join(folders)} in {into}" if folders else f"everything is already in {into}")
    if name == "dogs":
        say("keypoints: ask for StanfordExtra_v12.json at https://github.com/benjiebob/StanfordExtra, put it there too")
