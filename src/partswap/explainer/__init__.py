"""Images in, counterfactual out: `Explainer`, which class an explanation aims at, and verification."""

from partswap.explainer.explainer import Explainer
from partswap.explainer.notes import PartswapWarning
from partswap.explainer.one_call import explain

__all__ = ["Explainer", "PartswapWarning", "explain"]
