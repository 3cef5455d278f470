"""The methods, one small file each: a search with its settings, under a name.

To add one, drop a file into this folder with a `Method` subclass and ``@METHODS.register("name")``.
"""

from partswap.search.methods.base import METHODS, Method

__all__ = ["METHODS", "Method"]
