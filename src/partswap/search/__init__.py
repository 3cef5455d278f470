"""Searches and the methods made of them.

A method is a name for a search with its settings. To add one, drop a file into this folder with a `Method` subclass
and ``@METHODS.register("name")``.
"""

from partswap.search.base import METHODS, Method
from partswap.search.find import find_counterfactual, find_counterfactuals

__all__ = ["METHODS", "Method", "find_counterfactual", "find_counterfactuals"]
