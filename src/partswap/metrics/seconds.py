"""Seconds: how long does an explanation take?"""

from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("seconds")
class Seconds(Metric):
    """Time of the search, per explanation."""

    title = "Seconds"
    percent = False
    single = False
    lower_is_better = True

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return the seconds the search took."""
        return [cf.seconds]
