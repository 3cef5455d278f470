"""Metrics: one small file each, registered by name.

To add one, drop a file into this folder with a `Metric` (or `EditMetric`) subclass and ``@METRICS.register("name")``.
"""

from partswap.metrics.base import METRICS, EditMetric, Evidence, Metric, Score, Swap, score_all
from partswap.utils.estimates import RESAMPLES

__all__ = ["METRICS", "RESAMPLES", "EditMetric", "Evidence", "Metric", "Score", "Swap", "score_all"]
