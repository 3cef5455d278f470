"""Evaluations: how often does the head run for an explanation?"""

from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("evaluations")
class Evaluations(Metric):
    """Edited grids the head was evaluated on, per explanation: what a search costs on any machine."""

    title = "Evaluations"
    percent = False
    single = False
    lower_is_better = True

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return how many grids were evaluated, None if they were not counted."""
        return [float(cf.evaluations)] if cf.evaluations else None
