"""The metrics as tables of the page: those that say most first, the rest folded in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from partswap.apps.report.model import ReportData
from partswap.metrics import METRICS, Score
from partswap.metrics.base import Metric
from partswap.utils.estimates import Estimate

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
    estimates = [Estimate(None) if score is None else score.estimate(which) for score in each]
    scored = [estimate for estimate in estimates if estimate.mean is not None]
    if not scored:
        return None
    best = _clear_best(estimates, metric)
    top = 1.0 if metric.percent else max(1e-9, *(estimate.high for estimate in scored))

    def cell(place: int, estimate: Estimate) -> dict[str, Any]:
        points = (estimate.low, estimate.high, estimate.mean or 0.0)
        return {
            "value": metric.show(estimate.mean),
            "interval": estimate.interval and [metric.show(end) for end in estimate.interval],
            "places": [f"{100 * min(1.0, max(0.0, point / top)):.1f}%" for point in points],
            "best": place == best,
        }

    ways = {"single": ", first edit", "all": ", all edits"}[which] if metric.single else ""
    return {
        "title": f"{metric.title}{ways}",
        "help": " ".join((inspect.getdoc(type(metric)) or "").partition("\n\n")[0].split()),
        "unit": " %" if metric.percent else "",
        "cells": [None if e.mean is None else cell(place, e) for place, e in enumerate(estimates)],
    }


def _clear_best(estimates: Sequence[Estimate], metric: Metric) -> int | None:
    """Return which value is the best, None if it is not clear: alone, equal, or within the interval of another."""
    sign = -1.0 if metric.lower_is_better else 1.0
    scored = {n: sign * estimate.mean for n, estimate in enumerate(estimates) if estimate.mean is not None}
    if len(scored) < 2:
        return None
    best = max(scored, key=lambda n: scored[n])
    ends = {n: (sign * estimates[n].low, sign * estimates[n].high) for n in scored}
    return best if all(max(ends[n]) < min(ends[best]) for n in scored if n != best) else None
