"""The data sets, one file each.

To add one, drop a file into this folder with a `Dataset` subclass and ``@DATASETS.register("name")``.
"""
