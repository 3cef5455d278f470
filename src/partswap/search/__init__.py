"""Searches and the methods made of them."""

from partswap.search.find import find_counterfactual, find_counterfactuals
from partswap.search.methods import METHODS, Method

__all__ = ["METHODS", "Method", "find_counterfactual", "find_counterfactuals"]
