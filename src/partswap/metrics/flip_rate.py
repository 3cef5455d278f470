"""Flip rate: how often does the model end up saying the target?"""

from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("flip_rate")
class FlipRate(Metric):
    """Share of explanations after which the model says the target."""

    title = "Flip rate"
    single = False

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return 1 if the decision flipped, else 0."""
        return [float(cf.flipped)]
