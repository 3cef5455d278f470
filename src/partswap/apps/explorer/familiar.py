"""Whether an image is of the kind that the data set has: a photograph means nothing to a network of drawings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from partswap.features.encode import EncodedImages

#: Images of the data set that others are compared with.
COMPARED = 1000
#: The share of the data set's own images that count as odd, and how much odder an image must be.
ODD, MARGIN = 0.01, 0.03


class Familiar:
    """Compares images with those of a data set, by the mean of their cells.

    Means are centred, since all images share most of theirs. How alike an image is to the nearest of the data set is
    judged by how alike these are to their own nearest.
    """

    def __init__(self, features: EncodedImages) -> None:
        rows = range(0, len(features), max(1, len(features) // COMPARED))
        means = torch.cat([features.select([row]).grids.float().mean((2, 3)) for row in rows])
        self.centre = means.mean(0)
        self.known = F.normalize(means - self.centre, dim=1)
        alike = self.known @ self.known.T
        nearest = alike.fill_diagonal_(-1).amax(1)
        self.least = float(nearest.quantile(ODD)) - MARGIN

    def nearness(self, grids: Tensor) -> float:
        """Return how alike an image ``(1, d, h, w)`` is to the nearest of the data set, at most 1."""
        mean = F.normalize(grids.float().cpu().mean((2, 3)) - self.centre, dim=1)
        return float((mean @ self.known.T).max())

    def is_strange(self, grids: Tensor) -> bool:
        """Tell whether an image is of another kind."""
        return self.nearness(grids) < self.least
