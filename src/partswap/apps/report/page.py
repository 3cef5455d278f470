"""The page: texts and tables as HTML, pictures and charts as data for a script; written as a folder or one file."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

from partswap._version import __version__
from partswap.apps.report.findings import findings, main_source
from partswap.apps.report.links import listed
from partswap.apps.report.metrics import metric_tables
from partswap.apps.report.mistakes import mistake_tables
from partswap.apps.report.model import ReportData
from partswap.apps.templates import templates
from partswap.drawing.palette import EDITS, css_variables
from partswap.errors import SettingError
from partswap.metrics.clarity import CRITERIA, RULE
from partswap.utils.files import ensure_own_folder, write_bytes, write_text

#: In the order they build on each other; the page gets them as one script.
SCRIPTS = ("base.js", "cards.js", "charts.js", "map.js", "gallery.js", "detail.js", "report.js")
#: Pictures per script element of a self-contained file: only those that are needed are decoded.
SHARD = 48
SUFFIXES = (".html", ".htm")


def write_report(report: ReportData, out: str | Path) -> Path:
    """Write a report and return the page: one self-contained file if `out` ends in ``.html``, else a folder.

    In a folder the page is ``index.html`` and pictures are files that are read when they come into view. A folder is
    refused if it holds something else.
    """
    out = Path(out)
    return _write_file(report, out) if out.suffix.lower() in SUFFIXES else _write_folder(report, out)


def _write_file(report: ReportData, path: Path) -> Path:
    if path.is_dir():
        raise SettingError(f"{path} is a folder.", "Choose another name for the file ({out}).")
    encoded = report.thumbnails.encoded()
    shards = [encoded[start : start + SHARD] for start in range(0, len(encoded), SHARD)]
    scripts = [f'<script type="application/json" id="data">{in_script(_data(report, shard=SHARD))}</script>']
    scripts += [
        f'<script type="application/json" id="images-{n}">{in_script(shard)}</script>' for n, shard in enumerate(shards)
    ]
    page = _page(report, f"<style>{_style()}</style>", f"{''.join(scripts)}<script>{_script()}</script>")
    write_text(path, page, place="out")
    return path


def _write_folder(report: ReportData, folder: Path) -> Path:
    ensure_own_folder(folder, "report", ["report.js"])
    images = folder / "images"
    if images.exists():
        shutil.rmtree(images)  # those of an earlier report
    write_text(folder / "report.js", _script(), place="out")  # first: it tells that the folder is a report's
    for number, data in enumerate(report.thumbnails.files):
        write_bytes(images / f"{number:05d}.jpg", data, place="out")
    write_text(folder / "report.css", _style(), place="out")
    # A page that is opened from a disk may not read files, but it may run them.
    write_text(folder / "data.js", f"window.REPORT = {in_script(_data(report, shard=0))};\n", place="out")
    scripts = '<script src="data.js"></script><script src="report.js"></script>'
    page = _page(report, '<link rel="stylesheet" href="report.css">', scripts)
    write_text(folder / "index.html", page, place="out")
    return folder / "index.html"


def _data(report: ReportData, *, shard: int) -> dict[str, Any]:
    main = {"main": main_source(report), "examples": examples(report)}
    return {**report.data(), **main, "colors": EDITS, "shard": shard}


def examples(report: ReportData) -> list[int]:
    """Return which explanations stand beside the sentences, by their numbers: the clearest of each kind."""
    main, explanations = main_source(report), report.explanations
    order = [number for number in report.clearest_first() if explanations[number]["source"] == main]
    clearest: dict[bool, int] = {}
    for number in order:
        clearest.setdefault(bool(explanations[number].get("mistake")), number)
    return [clearest[mistake] for mistake in sorted(clearest)]


def rule_note(report: ReportData) -> str:
    """Return in words how the examples were chosen, and what of the rule could not be applied."""
    unknown = [
        text
        for name, text in (("pixels", "the pixel check was not made"), ("parts", "parts are not annotated"))
        if not any(name in e for e in report.explanations)
    ]
    caveat = f" Not all of it is known here: {listed(unknown)}." if unknown else ""
    if any(report.clarities[number].criteria + len(unknown) < CRITERIA for number in examples(report)):
        caveat += " Where none meets all of it, the one that meets most is shown."
    return RULE + caveat


def in_script(data: Any) -> str:
    """Return JSON that can stand in a script element: nothing in it ends the element or opens another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _static(name: str) -> str:
    return (files("partswap.apps.report") / "static" / name).read_text(encoding="utf-8")


def _style() -> str:
    """Return the style sheet, with the colors that are the same on every surface."""
    return f"{css_variables()}\n{_static('report.css')}"


def _script() -> str:
    body = "\n".join(_static(name) for name in SCRIPTS)
    return f'(function () {{\n"use strict";\n{body}\n}})();\n'


def _page(report: ReportData, style: str, scripts: str) -> str:
    return (
        templates(Path(__file__).parent / "templates")
        .get_template("report.html")
        .render(
            report=report,
            facts=facts(report),
            findings=findings(report),
            rule=rule_note(report),
            mistakes=mistake_tables(report),
            metrics=metric_tables(report),
            version=__version__,
            style=style,
            scripts=scripts,
        )
    )


def facts(report: ReportData) -> list[tuple[int, str]]:
    """Return what a report is about, in numbers."""
    wrong = len({e["case"] for e in report.explanations if e.get("mistake")})
    right = len({e["case"] for e in report.explanations if not e.get("mistake")})
    images = (
        [(right, "images that are right"), (wrong, "mistakes")] if right and wrong else [(right or wrong, "images")]
    )
    pairs = {(e["from"], e["to"]) for e in report.explanations}
    counts = [*images, (len(report.explanations), "explanations"), (len(pairs), "class pairs")]
    return [*counts, (len(report.sources), "methods" if len(report.sources) > 1 else "method")]
