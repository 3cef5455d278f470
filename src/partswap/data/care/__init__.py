"""Caring for data sets: getting archives, checking what is on disk, looking at it."""
