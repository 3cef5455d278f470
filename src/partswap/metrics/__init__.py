"""Metrics: one small file each, registered by name.

To add one, drop a file into this folder with a `Metric` subclass and ``@METRICS.register("name")``.
"""

from partswap.metrics.base import METRICS, Evidence, Metric, Score, score_all

__all__ = ["METRICS", "Evidence", "Metric", "Score", "score_all"]
