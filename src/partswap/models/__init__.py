"""Classifiers and auxiliary models: by name, from Hugging Face, from a file."""
