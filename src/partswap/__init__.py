"""Counterfactual explanations of image classifiers, a head for a head and a tail for a tail."""

from partswap._version import __version__

__all__ = ["__version__"]
