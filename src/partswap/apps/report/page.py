"""The page: what can be said without a script as HTML, the rest as data for the script; in a folder or one file."""

from __future__ import annotations

import html
import inspect
import json
import shutil
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from partswap._version import __version__
from partswap.apps.report.findings import findings, main_source
from partswap.apps.report.model import Report
from partswap.errors import SettingError
from partswap.metrics import METRICS
from partswap.metrics.base import Metric
from partswap.metrics.bootstrap import Interval
from partswap.palette import EDITS
from partswap.store import refuse_strangers

#: In the order they build on each other; the page gets them as one script.
SCRIPTS = ("base.js", "cards.js", "charts.js", "map.js", "report.js")
#: Pictures per script element of a self-contained file: only those that are needed are decoded.
SHARD = 48
SUFFIXES = (".html", ".htm")
#: What comes first and last among the metrics.
ORDER = {"flip_rate": 0, "edits": 1, "evaluations": 8, "seconds": 9}


def write_report(report: Report, out: str | Path) -> Path:
    """Write a report and return the page: one self-contained file if `out` ends in ``.html``, else a folder.

    In a folder the page is ``index.html`` and pictures are files that are read when they come into view. A folder is
    refused if it holds something else.
    """
    out = Path(out)
    return _write_file(report, out) if out.suffix.lower() in SUFFIXES else _write_folder(report, out)


def _write_file(report: Report, path: Path) -> Path:
    if path.is_dir():
        raise SettingError(f"{path} is a folder.", "Choose another name for the file ({out}).")
    encoded = report.thumbnails.encoded()
    shards = [encoded[start : start + SHARD] for start in range(0, len(encoded), SHARD)]
    scripts = [f'<script type="application/json" id="data">{in_script(_data(report, shard=SHARD))}</script>']
    scripts += [
        f'<script type="application/json" id="images-{n}">{in_script(shard)}</script>' for n, shard in enumerate(shards)
    ]
    page = _page(report, f"<style>{_static('report.css')}</style>", f"{''.join(scripts)}<script>{_script()}</script>")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.tmp")
    part.write_text(page, encoding="utf-8")
    part.replace(path)
    return path


def _write_folder(report: Report, folder: Path) -> Path:
    refuse_strangers(folder, "report", ["report.js"])
    images = folder / "images"
    if images.exists():
        shutil.rmtree(images)  # those of an earlier report
    images.mkdir(parents=True)
    for number, data in enumerate(report.thumbnails.files):
        (images / f"{number:05d}.jpg").write_bytes(data)
    (folder / "report.css").write_text(_static("report.css"), encoding="utf-8")
    (folder / "report.js").write_text(_script(), encoding="utf-8")
    # A page that is opened from a disk may not read files, but it may run them.
    (folder / "data.js").write_text(f"window.REPORT = {in_script(_data(report, shard=0))};\n", encoding="utf-8")
    scripts = '<script src="data.js"></script><script src="report.js"></script>'
    page = _page(report, '<link rel="stylesheet" href="report.css">', scripts)
    (folder / "index.html").write_text(page, encoding="utf-8")
    return folder / "index.html"


def _data(report: Report, *, shard: int) -> dict[str, Any]:
    return {**report.data(), "main": main_source(report), "colors": EDITS, "shard": shard}


def in_script(data: Any) -> str:
    """Return JSON that can stand in a script element: nothing in it ends the element or opens another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _static(name: str) -> str:
    return (files("partswap.apps.report") / "static" / name).read_text(encoding="utf-8")


def _script() -> str:
    body = "\n".join(_static(name) for name in SCRIPTS)
    return f'(function () {{\n"use strict";\n{body}\n}})();\n'


def _page(report: Report, style: str, scripts: str) -> str:
    told = "".join(f'<p class="notice" role="note">{html.escape(notice)}</p>' for notice in report.notices)
    facts = [
        (len(report.cases), "images"),
        (len(report.explanations), "explanations"),
        (len({(e["from"], e["to"]) for e in report.explanations}), "class pairs"),
        (len(report.sources), "method" if len(report.sources) == 1 else "methods"),
    ]
    return Template(_static("report.html")).substitute(
        title=html.escape(report.title),
        note=html.escape(report.note),
        notices=told,
        facts="".join(f"<li><b>{count:,}</b> {what}</li>" for count, what in facts),
        findings="".join(f"<li>{line}</li>" for line in findings(report)),
        table=metrics_table(report),
        version=html.escape(__version__),
        style=style,
        scripts=scripts,
    )


def metrics_table(report: Report) -> str:
    """Return the metrics, one row each, one column per method: value, 95 % interval, and both on a scale."""
    head = "".join(
        f'<th scope="col"><span class="dot s{n % 6}"></span>{html.escape(source.title)}'
        + (f"<small>{html.escape(source.run)}</small>" if source.run and source.run not in source.title else "")
        + "</th>"
        for n, source in enumerate(report.sources)
    )
    rows = []
    for name in sorted(METRICS.names(), key=lambda name: (ORDER.get(name, 2), name)):
        metric = METRICS.get(name)()
        for which in metric.ways:
            row = _metric_row(report, name, metric, which)
            if row:
                rows.append(row)
    return f'<table><thead><tr><th scope="col">metric</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _metric_row(report: Report, name: str, metric: Metric, which: str) -> str:
    scores = [source.scores.get(name) for source in report.sources]
    values = [None if score is None else getattr(score, which) for score in scores]
    bounds = [None if score is None else getattr(score, f"{which}_interval") for score in scores]
    known = [value for value in values if value is not None]
    if not known:
        return ""
    best = _clear_best(values, bounds, metric)
    tops = [bound[1] for bound in bounds if bound is not None]
    top = 1.0 if metric.percent else max(*known, *tops, 1e-9)
    cells = []
    for place, (value, bound) in enumerate(zip(values, bounds, strict=True)):
        if value is None:
            cells.append("<td>&ndash;</td>")
            continue
        unit = " %" if metric.percent else ""
        number = f"<b>{metric.show(value)}</b>{unit}"
        low, high = bound or (value, value)
        told = "" if bound is None else f"<small>{metric.show(low)} &ndash; {metric.show(high)}</small>"
        places = [f"{100 * min(1.0, max(0.0, at / top)):.1f}%" for at in (low, high, value)]
        scale = f'<span class="scale" style="--low:{places[0]};--high:{places[1]};--at:{places[2]}"></span>'
        mark = ' class="best"' if place == best else ""
        cells.append(f"<td{mark}>{number}{told}{scale}</td>")
    ways = {"single": ", first edit", "all": ", all edits"}[which] if metric.single else ""
    what = " ".join((inspect.getdoc(type(metric)) or "").partition("\n\n")[0].split())
    title = f'<th scope="row">{html.escape(metric.title)}{ways}<small>{html.escape(what)}</small></th>'
    return f"<tr>{title}{''.join(cells)}</tr>"


def _clear_best(values: Sequence[float | None], bounds: Sequence[Interval | None], metric: Metric) -> int | None:
    """Return which value is the best, None if it is not clear: alone, equal, or within the interval of another."""
    known = [n for n, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return None
    sign = -1.0 if metric.lower_is_better else 1.0
    best = max(known, key=lambda n: sign * (values[n] or 0.0))
    ends = {n: bounds[n] or (values[n] or 0.0, values[n] or 0.0) for n in known}
    mine = min(sign * end for end in ends[best])
    return best if all(max(sign * end for end in ends[n]) < mine for n in known if n != best) else None
