"""Which class to explain towards, and which images to take regions from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from partswap.data.base import Attributes


def confused_classes(logits: Tensor, labels: Tensor) -> dict[int, int]:
    """Return, for each class, the class it is most often mistaken for.

    Where two are mistaken equally often (or never), the one with the higher mean probability is taken.

    Parameters
    ----------
    logits : Tensor
        ``(n, classes)`` over the evaluated split.
    labels : Tensor
        ``(n,)``.
    """
    logits, labels = logits.cpu(), labels.cpu()
    classes = logits.shape[1]
    probabilities = logits.float().softmax(1)
    predicted = logits.argmax(1)
    nearest = {}
    for c in sorted(set(labels.tolist())):
        mine = labels == c
        counts = torch.bincount(predicted[mine], minlength=classes).double()
        # Probabilities are at most 1, so they only decide between equal counts.
        score = counts + 0.5 * probabilities[mine].mean(0).double()
        score[c] = -1
        nearest[int(c)] = int(score.argmax())
    return nearest


def nearest_by_attributes(attributes: Attributes) -> dict[int, int]:
    """Return, for each class, the other class with the most similar average attributes (Euclidean distance)."""
    share = attributes.share
    if len(share) < 2:
        return {}
    nearest = {}
    for c, mine in enumerate(share):
        distance = np.linalg.norm(share - mine, axis=1)
        distance[c] = np.inf
        nearest[c] = int(distance.argmin())
    return nearest


def draw_distractors(right: Sequence[int], count: int, *, seed: int, query: int) -> list[int]:
    """Return at most `count` of the images of a class that the model gets `right`, drawn at random.

    The draw depends on the seed and the query only, so any order and any number of workers gives the same.
    """
    rng = np.random.default_rng((seed, query))
    return [int(right[k]) for k in rng.permutation(len(right))[:count]]
