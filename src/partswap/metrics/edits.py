"""#Edits: how many swaps does it take?"""

from partswap.metrics.base import METRICS, Evidence, Metric
from partswap.results.counterfactual import Counterfactual


@METRICS.register("edits")
class Edits(Metric):
    """Number of edits of the explanations that flipped; read it beside the flip rate."""

    title = "#Edits"
    percent = False
    single = False
    lower_is_better = True

    def scores(self, cf: Counterfactual, evidence: Evidence) -> list[float] | None:
        """Return the number of edits, nothing if the decision did not flip."""
        return [float(len(cf.edits))] if cf.flipped else None
