"""The semantic term: how likely a distractor cell shows the same part as a query cell.

The paper's is one softmax over all cells of all distractors. It is largest for what is unlike anything else, and that
is more often a stone in the background than a part: of the ten pairs it likes best on photographs of birds, one in five
shows the same part. Ours asks twice. Within one image: is this cell the counterpart of that one, and that one of this?
Over all images: does it have a counterpart in each? Sky has too many in every image, a stone has none in most, a head
has one. Of the ten pairs that this likes best, one in two shows the same part.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from partswap.grid import to_cells
from partswap.models.multi_layer import normalized_layers
from partswap.search.settings import SearchSettings, Temperature

#: ``tau="auto"`` is this share of the standard deviation of the cosines ...
CONTRAST = 0.65
#: ... but, with the paper's objective and an auxiliary that has no temperature of its own, the published one.
PUBLISHED_TAU = 0.1


def cosines(query_aux: Tensor, distractor_aux: Tensor) -> Tensor:
    """Return the cosines ``(h*w, n*h*w)`` of the cells of a grid ``(e, h, w)`` and of grids ``(n, e, h, w)``."""
    u = F.normalize(to_cells(query_aux), dim=1)
    v = F.normalize(to_cells(distractor_aux), dim=1)
    return u @ v.T


def centered(query_aux: Tensor, distractor_aux: Tensor, widths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the same grids with each layer of `widths` channels centered on all their cells, and of length 1."""
    grids = torch.cat([query_aux[None], distractor_aux])
    cells = to_cells(grids)
    rows = normalized_layers(cells, widths, cells.mean(0))
    stacked = rows.view(len(grids), *grids.shape[2:], -1).permute(0, 3, 1, 2)
    return stacked[0], stacked[1:]


def resolve_tau(settings: SearchSettings, auxiliary_tau: float | None) -> Temperature:
    """Return the temperature that settings and auxiliary ask for; "auto" if the cosines decide (see `temperature`).

    A number in the settings counts first. With ``tau="auto"`` the paper's objective takes the auxiliary's own, or the
    published one if the auxiliary has none.
    """
    if settings.tau == "auto" and settings.objective == "paper":
        return PUBLISHED_TAU if auxiliary_tau is None else auxiliary_tau
    return settings.tau


def temperature(cosine: Tensor) -> float:
    """Return the temperature that suits cosines, from how far they spread.

    A softmax is as sharp as the differences of what it gets: features whose cosines lie close together need a lower
    temperature. Relative to their spread, one weight of the semantic term means the same with every auxiliary.
    """
    return max(CONTRAST * float(cosine.std()), 1e-6)


def log_similarity(cosine: Tensor, tau: float) -> Tensor:
    """Return the paper's ``log L_s(i, j)``: a softmax over all cells of all distractors, per query cell."""
    return F.log_softmax(cosine / tau, dim=1)


def counterparts(cosine: Tensor, tau: float) -> Tensor:
    """Return how likely cells of two images are each other's counterpart, in logarithms.

    `cosine` is of the cells of one image with those of others, ``(h*w, n, h*w)``. The mean of two softmaxes: over the
    cells of the other image, and over those of the one.
    """
    scaled = cosine / tau
    return (F.log_softmax(scaled, dim=2) + F.log_softmax(scaled, dim=0)) / 2


def recurring_similarity(query_aux: Tensor, distractor_aux: Tensor, tau: float) -> Tensor:
    """Return our ``log L_s(i, j)``, ``(h*w, n*h*w)``: counterparts within an image that recur in all of them.

    To how likely `i` and `j` are each other's counterpart comes how likely each has one at all: on average over the
    distractors for `i`, over the query and the other distractors for `j`.
    """
    count = len(distractor_aux)
    query = F.normalize(to_cells(query_aux), dim=1)
    others = F.normalize(to_cells(distractor_aux), dim=1)
    pairs = counterparts((query @ others.T).view(len(query), count, -1), tau)
    best = pairs.amax(0)  # (n, h*w), of a distractor's cells in the query
    for number, image in enumerate(others.view(count, -1, others.shape[1])):  # one at a time: all at once are n * n
        best_in = counterparts((image @ others.T).view(len(image), count, -1), tau).amax(2)
        best[number] += best_in.sum(1) - best_in[:, number]
    return (pairs + pairs.amax(2).mean(1)[:, None, None] + best / count).flatten(1)
