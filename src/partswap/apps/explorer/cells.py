"""One cell of the query: what it is like in the distractors, and what a swap would do."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from partswap.apps.explorer.service import ExplorerService
from partswap.apps.explorer.view import View
from partswap.errors import SettingError
from partswap.search.problem import Problem
from partswap.search.semantic import cosines
from partswap.search.settings import SearchSettings

#: Matches that are shown, swaps that raise the probability most, and how many are looked at exactly for that.
ALIKE, RAISING, LOOKED_AT = 6, 3, 24


@dataclass(frozen=True)
class Match:
    """A cell of a distractor that could be swapped in."""

    cell: int  #: flat index over all distractors
    probability: float  #: of the target, with this swap made
    flips: bool


@dataclass(frozen=True)
class Matches:
    """What could take the place of one cell."""

    cell: int
    before: float  #: probability of the target as things are
    alike: list[Match]
    raising: list[Match]


def matches_of(room: ExplorerService, view: View, cell: int) -> Matches:
    """Return the best matches of a cell, and what each swap would do after those made by hand so far."""
    problem = room.problem(view)
    if not 0 <= cell < problem.shape.cells:
        raise SettingError(f"there is no cell {cell}.", f"Use one below {problem.shape.cells}.")
    made = tuple(swap for swap in view.swaps or () if swap[0] != cell)
    with torch.inference_mode(False), torch.no_grad():
        evaluator, target, _ = problem.setup(room.explainer.plan, room.evaluator_mb, room.cancel)
        prepared = evaluator.start
        for i, j in made:
            at = [torch.tensor([k], device=problem.query.device) for k in (0, i, j)]
            prepared = evaluator.advance(prepared, *at)
        like = similarity_of(problem, view)[cell].clone()
        taken = torch.tensor([j for _, j in made], dtype=torch.long, device=like.device)
        like[taken] = -torch.inf
        # Gains are of all cells at once, and remembered: the next cell costs a look.
        gain = next(iter(evaluator.gains(prepared, target, leads=True)))[0][cell].clone()
        gain[taken] = -torch.inf
        count = len(like)
        alike, helping = (rank.topk(min(k, count)).indices for rank, k in ((like, ALIKE), (gain, LOOKED_AT)))
        looked = torch.cat([alike, helping])
        state, at_cell = torch.zeros_like(looked), torch.full_like(looked, cell)
        scores, flips = evaluator.evaluate(prepared, state, at_cell, looked, target)
    found = [
        Match(int(a), float(p), bool(f)) for a, p, f in zip(looked.tolist(), scores.exp().tolist(), flips, strict=True)
    ]
    raising = sorted({m.cell: m for m in found[len(alike) :]}.values(), key=lambda m: -m.probability)
    before = float(prepared.logits[0].softmax(0)[target])
    return Matches(cell, before, found[: len(alike)], raising[:RAISING])


def similarity_of(problem: Problem, view: View) -> Tensor:
    """Return how alike cells are, ``(h*w, n*h*w)``: by the auxiliary, or by the classifier itself if there is none."""
    if problem.cosine is None:
        return cosines(problem.query, problem.distractors)
    return problem.similarity(SearchSettings(tau=view.tau or "auto")).log
