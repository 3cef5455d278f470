"""Pixel gain: how much does the probability of the target rise with the regions pasted into the image?"""

from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("pixel_gain")
class PixelGain(Metric):
    """Probability of the target for the composite, minus that for the query; below 0 where it falls."""

    title = "Pixel gain"
    single = False

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return the difference; nothing where the composite was not looked at."""
        return None if cf.pixel is None else [cf.pixel.after - cf.pixel.before]
