"""Counterfactuals in words: attributes, parts, the decomposition of classes, sentences."""

from partswap.language.model import WordsModel
from partswap.language.speaker import Speaker, open_speaker

__all__ = ["Speaker", "WordsModel", "open_speaker"]
