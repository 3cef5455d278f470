"""Metrics: one small file each, registered by name.

To add one, drop a file into this folder with a `Metric` subclass and ``@METRICS.register("name")``.
"""

from partswap.metrics.base import METRICS, Evidence, Metric, Score, score_all
from partswap.metrics.bootstrap import RESAMPLES

__all__ = ["METRICS", "RESAMPLES", "Evidence", "Metric", "Score", "score_all"]
