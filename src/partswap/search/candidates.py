"""Which swaps may be tried at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


def same_label(query_labels: Tensor, distractor_labels: Tensor) -> Tensor:
    """Return a mask ``(h*w, n*h*w)`` of pairs whose cells have the same label; a negative one matches nothing."""
    return (query_labels[:, None] == distractor_labels[None, :]) & (query_labels[:, None] >= 0)


def shared_part(query_parts: Sequence[frozenset[str]], distractor_parts: Sequence[frozenset[str]]) -> Tensor:
    """Return a mask ``(h*w, n*h*w)`` of pairs whose cells hold a common part; a cell without any matches nothing."""
    number_of = {part: k for k, part in enumerate(sorted(frozenset().union(*query_parts, *distractor_parts)))}

    def table_of(cells: Sequence[frozenset[str]]) -> Tensor:
        table = torch.zeros(len(cells), max(1, len(number_of)), dtype=torch.float32)
        for cell, parts in enumerate(cells):
            for part in parts:
                table[cell, number_of[part]] = 1
        return table

    return table_of(query_parts) @ table_of(distractor_parts).T > 0


def prefilter(cosine: Tensor, keep: float) -> Tensor:
    """Return the paper's prefilter: a mask ``(h*w, n*h*w)`` of the fraction `keep` of all pairs, by highest cosine.

    Of equal cosines the lower flat index comes first.
    """
    order = torch.sort(cosine.flatten(), descending=True, stable=True).indices
    mask = torch.zeros(cosine.numel(), dtype=torch.bool, device=cosine.device)
    mask[order[: max(1, math.floor(cosine.numel() * keep))]] = True
    return mask.view_as(cosine)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The pairs still open to one list of edits."""

    shape: tuple[int, int]  #: ``(h*w, n*h*w)``
    filtered: Tensor | None  #: mask of the pairs the prefilter lets through; None is all
    allowed: Tensor | None  #: mask of the pairs a hard constraint lets through; None is all
    device: torch.device  #: where masks are made
    relax: bool = False  #: whether pairs a hard constraint forbids come back once the others have run out

    def open(self, edits: tuple[tuple[int, int], ...]) -> Tensor:
        """Return the mask of pairs that use neither a query cell nor a distractor cell of `edits`.

        When what the prefilter let through has run out, what it had filtered out comes back; a hard constraint holds
        to the end, unless it may be relaxed.
        """
        free = torch.ones(self.shape, dtype=torch.bool, device=self.device)
        for i, j in edits:
            free[i, :] = False
            free[:, j] = False
        if self.allowed is not None:
            permitted = free & self.allowed
            free = permitted if not self.relax or bool(permitted.any()) else free
        if self.filtered is None:
            return free
        passed = free & self.filtered
        return passed if bool(passed.any()) else free
