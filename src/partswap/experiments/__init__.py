"""Runs over many images."""
