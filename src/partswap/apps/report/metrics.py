"""The metrics as tables of the page: those that say most first, the rest folded in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

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


def metric_tables(report: ReportData) -> list[dict[str, Any]]:
    """Return the tables of metrics; images that the model gets right and such that it gets wrong have one each."""
    by_kind = report.scores_by_kind()
    if len(by_kind) < 2:
        return [_table([source.scores for source in report.sources], "Metrics")]
    labels = {False: "Images the model gets right", True: "Images the model gets wrong, towards the true class"}
    return [_table(scores, labels[mistake]) for mistake, scores in by_kind.items()]


def _table(scores: Scores, label: str) -> dict[str, Any]:
    """Return the rows that say most, and the others."""
    names = sorted(METRICS.names(), key=lambda name: (LAST.get(name, 0), name))
    rows = {
        (name, which): row
        for name in names
        for which in METRICS.get(name)().ways
        if (row := _metric_row(scores, name, METRICS.get(name)(), which)) is not None
    }
    first = [key for name in FIRST if (key := (name, "all")) in rows][:OPEN]
    rest = [row for key, row in rows.items() if key not in first]
    return {"label": label, "first": [rows[key] for key in first], "rest": rest}


def _metric_row(scores: Scores, name: str, metric: Metric, which: str) -> dict[str, Any] | None:
    """Return the template's values of one row; None if no source has a score."""
    each = [of_source.get(name) for of_source in scores]
    values = [None if score is None else getattr(score, which) for score in each]
    bounds = [None if score is None else getattr(score, f"{which}_interval") for score in each]
    present = [value for value in values if value is not None]
    if not present:
        return None
    best = _clear_best(values, bounds, metric)
    tops = [bound[1] for bound in bounds if bound is not None]
    top = 1.0 if metric.percent else max(*present, *tops, 1e-9)

    def cell(place: int, value: float, bound: Interval | None) -> dict[str, Any]:
        ends = bound or (value, value)
        return {
            "value": metric.show(value),
            "interval": bound and [metric.show(end) for end in bound],
            "places": [f"{100 * min(1.0, max(0.0, at / top)):.1f}%" for at in (*ends, value)],
            "best": place == best,
        }

    ways = {"single": ", first edit", "all": ", all edits"}[which] if metric.single else ""
    cells = zip(range(len(values)), values, bounds, strict=True)
    return {
        "title": f"{metric.title}{ways}",
        "help": " ".join((inspect.getdoc(type(metric)) or "").partition("\n\n")[0].split()),
        "unit": " %" if metric.percent else "",
        "cells": [None if value is None else cell(place, value, bound) for place, value, bound in cells],
    }


def _clear_best(values: Sequence[float | None], bounds: Sequence[Interval | None], metric: Metric) -> int | None:
    """Return which value is the best, None if it is not clear: alone, equal, or within the interval of another."""
    present = [n for n, value in enumerate(values) if value is not None]
    if len(present) < 2:
        return None
    sign = -1.0 if metric.lower_is_better else 1.0
    best = max(present, key=lambda n: sign * (values[n] or 0.0))
    ends = {n: bounds[n] or (values[n] or 0.0, values[n] or 0.0) for n in present}
    worst_of_best = min(sign * end for end in ends[best])
    return best if all(max(sign * end for end in ends[n]) < worst_of_best for n in present if n != best) else None
