"""Whole data sets, here or on a cluster: what to explain, in which order, into which folder."""
