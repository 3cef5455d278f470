"""Searches and the methods made of them."""

from partswap.search.find import find_counterfactual, find_counterfactuals
from partswap.search.methods import METHODS, Method
from partswap.search.settings import SearchSettings

__all__ = ["METHODS", "Method", "SearchSettings", "find_counterfactual", "find_counterfactuals"]
