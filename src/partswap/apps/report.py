"""A report: one HTML file with everything in it, to look at, mail around or put beside a paper."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from partswap._version import __version__
from partswap.metrics import METRICS, Score
from partswap.pictures import CSS, counterfactual_html
from partswap.search import METHODS
from partswap.studies.demo import Example

PAGE_CSS = """
:root { color-scheme: light; }
body { margin: 0; background: #f5f6f9; color: #1d2430;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 80px; }
h1 { font-size: 28px; margin: 0 0 6px; letter-spacing: -0.01em; }
p.lead { color: #475467; margin: 0 0 24px; max-width: 70ch; }
table { border-collapse: collapse; background: #fff; border-radius: 12px; overflow: hidden; border: 1px solid #e3e6ec;
  border-spacing: 0; margin: 0 0 14px; width: 100%; }
th, td { padding: 10px 14px; text-align: right; font-variant-numeric: tabular-nums; }
th { font-size: 12.5px; color: #667085; font-weight: 600; background: #fafbfc; border-bottom: 1px solid #e3e6ec; }
th:first-child, td:first-child { text-align: left; }
td.best { font-weight: 700; color: #137a4a; }
p.legend { font-size: 13px; color: #667085; margin: 0 0 36px; max-width: 90ch; }
section { margin: 0 0 34px; }
h2 { font-size: 18px; margin: 0 0 2px; }
p.truth { margin: 0; color: #667085; font-size: 13.5px; }
p.truth b { color: #1d2430; font-weight: 600; }
footer { color: #98a2b3; font-size: 13px; }
"""


def write_report(
    path: Path,
    *,
    title: str,
    scores: Mapping[str, Mapping[str, Score]],
    columns: Sequence[tuple[str, str]],
    examples: Sequence[Example],
    note: str = "",
) -> Path:
    """Write the report; `columns` are pairs of metric name and "single" or "all"."""
    body = [f"<h1>{html.escape(title)}</h1>", f'<p class="lead">{html.escape(note)}</p>']
    body.append(_table(scores, columns))
    body.append(
        '<p class="legend">Near-KP: the swapped cells hold keypoints. Same-KP: both cells hold the same part. '
        "True-part: both show a part in which the two species truly differ. Single: first edits; all: every edit, in "
        "per cent. Numbered outlines are the swapped cells; bars are the target's probability, green once the "
        "model says the target.</p>"
    )
    for example in examples:
        body.append(f"<section><h2>{html.escape(example.title)}</h2>")
        if example.truth:
            parts = html.escape(", ".join(example.truth))
            body.append(f'<p class="truth">They truly differ in: <b>{parts}</b></p>')
        for method, cf in example.found.items():
            body.append(counterfactual_html(cf, style=False, title=method))
        body.append("</section>")
    body.append(f"<footer>partswap {__version__}</footer>")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{PAGE_CSS}{CSS}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _table(scores: Mapping[str, Mapping[str, Score]], columns: Sequence[tuple[str, str]]) -> str:
    head = ["<th>method</th>"]
    rows: list[list[str]] = [[f"<td>{html.escape(METHODS.get(m).title)}</td>"] for m in scores]
    for name, which in columns:
        metric = METRICS.get(name)()
        head.append(f"<th>{html.escape(metric.title)}{f', {which}' if metric.single else ''}</th>")
        values = [getattr(found[name], which) for found in scores.values()]
        known = [v for v in values if v is not None]
        best = (min if metric.lower_is_better else max)(known) if len(known) > 1 else None
        for row, value in zip(rows, values, strict=True):
            mark = ' class="best"' if best is not None and value == best else ""
            row.append(f"<td{mark}>{metric.show(value)}</td>")
    lines = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{''.join(head)}</tr></thead><tbody>{lines}</tbody></table>"
