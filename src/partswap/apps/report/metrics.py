"""The metrics as tables of the page: those that say most first, the rest folded in."""

from __future__ import annotations

import html
import inspect
from collections.abc import Mapping, Sequence

from partswap.apps.report.model import ReportData
from partswap.metrics import METRICS, Score
from partswap.metrics.base import Metric
from partswap.metrics.bootstrap import Interval

#: Which metrics come first; of those that could be computed, as many as `OPEN` are shown at once.
FIRST = ("flip_rate", "edits", "pixel_flip", "same_kp", "near_kp", "true_part", "foreground")
OPEN = 5
#: What comes last among the others.
LAST = {"evaluations": 1, "seconds": 2}

Scores = Sequence[Mapping[str, Score]]


def metrics_section(report: ReportData) -> str:
    """Return the metrics as HTML; images that the model gets right and such that it gets wrong have a table each."""
    by_kind = report.scores_by_kind()
    if len(by_kind) < 2:
        return _tables(report, [source.scores for source in report.sources], "Metrics")
    parts = []
    for mistake, scores in by_kind.items():
        title = "Images the model gets wrong, towards the true class" if mistake else "Images the model gets right"
        parts.append(f"<h3>{title}</h3>{_tables(report, scores, title)}")
    return "".join(parts)


def _tables(report: ReportData, scores: Scores, label: str) -> str:
    """Return a table of the metrics that say most, and one of the others to unfold."""
    heads = "".join(
        f'<th scope="col"><span class="dot s{n % 6}"></span>{html.escape(source.title)}'
        + (f"<small>{html.escape(source.run)}</small>" if source.run and source.run not in source.title else "")
        + "</th>"
        for n, source in enumerate(report.sources)
    )

    def table(rows: Sequence[str], name: str) -> str:
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table class="metrics"><thead><tr>'
            f'<th scope="col">metric</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        )

    rows = {
        (name, which): row
        for name in sorted(METRICS.names(), key=lambda name: (LAST.get(name, 0), name))
        for which in METRICS.get(name)().ways
        if (row := _metric_row(scores, name, METRICS.get(name)(), which))
    }
    first = [key for name in FIRST if (key := (name, "all")) in rows][:OPEN]
    rest = [row for key, row in rows.items() if key not in first]
    more = f"<details><summary>{len(rest)} more metrics</summary>{table(rest, f'{label}, others')}</details>"
    return table([rows[key] for key in first], label) + (more if rest else "")


def _metric_row(scores: Scores, name: str, metric: Metric, which: str) -> str:
    each = [of_source.get(name) for of_source in scores]
    values = [None if score is None else getattr(score, which) for score in each]
    bounds = [None if score is None else getattr(score, f"{which}_interval") for score in each]
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
