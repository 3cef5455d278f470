"""Data sets: one file each in ``sets/``, registered by name.

To add one, drop a file into ``sets/`` with a `Dataset` subclass and ``@DATASETS.register("name")``.
"""

from partswap.data.base import DATASETS, Attributes, Dataset, Sample, open_dataset
from partswap.data.geometry import RandomView, on_canvas
from partswap.data.on_grid import CellFacts, cell_facts

__all__ = [
    "DATASETS",
    "Attributes",
    "CellFacts",
    "Dataset",
    "RandomView",
    "Sample",
    "cell_facts",
    "on_canvas",
    "open_dataset",
]
