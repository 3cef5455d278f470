"""Finds dropped images that are unlike the data set: of a photograph, a network of drawings says nothing useful."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from partswap.features.encode import EncodedImages

#: Images of the data set that others are compared with.
COMPARED = 1000
#: The quantile of the data set's own similarities, and how far below it that of an outlier lies.
QUANTILE, MARGIN = 0.01, 0.03


class OutlierDetector:
    """Compares images with those of a data set, by the mean of their cells.

    Means are centered, since all images share most of theirs. The cosine of an image and the most similar one of the
    data set is compared with the cosines that the data set's images have with their own most similar ones.
    """

    def __init__(self, features: EncodedImages) -> None:
        rows = range(0, len(features), max(1, len(features) // COMPARED))
        means = torch.cat([features.select([row]).grids.float().mean((2, 3)) for row in rows])
        self.center = means.mean(0)
        self.means = F.normalize(means - self.center, dim=1)
        nearest = (self.means @ self.means.T).fill_diagonal_(-1).amax(1)
        self.threshold = float(nearest.quantile(QUANTILE)) - MARGIN

    def similarity(self, grids: Tensor) -> float:
        """Return the cosine of an image ``(1, d, h, w)`` and the most similar one of the data set."""
        mean = F.normalize(grids.float().cpu().mean((2, 3)) - self.center, dim=1)
        return float((mean @ self.means.T).max())

    def is_outlier(self, grids: Tensor) -> bool:
        """Return whether an image ``(1, d, h, w)`` is unlike all of the data set."""
        return self.similarity(grids) < self.threshold
