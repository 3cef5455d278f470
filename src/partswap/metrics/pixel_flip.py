"""Pixel flip rate: with the regions pasted into the image, does the whole network say the target?"""

from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("pixel_flip")
class PixelFlip(Metric):
    """Share of explanations whose composite the whole network calls the target."""

    title = "Pixel flip rate"
    single = False

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return 1 if the composite is called the target, else 0; nothing where it was not looked at."""
        return None if cf.pixel is None else [float(cf.pixel.flipped)]
