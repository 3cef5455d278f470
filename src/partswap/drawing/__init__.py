"""Counterfactuals drawn: figures for papers, HTML for notebooks, and the colors of every surface."""
