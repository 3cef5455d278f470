"""Benchmarks: speed claims as ratios between two things run in the same process."""
