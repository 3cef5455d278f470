"""Figures of counterfactuals: one small file per kind, registered by name.

To add one, drop a file into this folder with a function from a `Counterfactual` (and options) to a figure, and
``@FIGURES.register("name")``.
"""

from partswap.drawing.figures.base import FIGURES, draw
from partswap.drawing.figures.saving import FORMATS, check_format

__all__ = ["FIGURES", "FORMATS", "check_format", "draw"]
