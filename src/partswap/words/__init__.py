"""Counterfactuals in words: attributes, parts, the decomposition of classes, sentences."""

from partswap.words.model import WordsModel
from partswap.words.writer import WordsWriter, open_words_writer

__all__ = ["WordsModel", "WordsWriter", "open_words_writer"]
