"""One cell of the query: the distractor cells that are most similar to it, and what swapping them in would do."""

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

#: Cells that are shown: the most similar ones, and those that raise the probability most. The latter are the best of
#: so many that are evaluated exactly, chosen by their first-order gain.
SIMILAR, RAISING, EVALUATED = 6, 3, 24


@dataclass(frozen=True)
class CandidateCell:
    """A cell of a distractor that could be swapped in."""

    cell: int  #: flat index over all distractors
    probability: float  #: of the target after this swap
    flips: bool


@dataclass(frozen=True)
class CellCandidates:
    """The distractor cells that could take the place of one cell of the query."""

    cell: int
    before: float  #: probability of the target without a further swap
    similar: list[CandidateCell]  #: the most similar first
    raising: list[CandidateCell]  #: the highest probability first


def candidates_of(service: ExplorerService, view: View, cell: int) -> CellCandidates:
    """Return the best candidates for a cell, and what each swap would do after those made by hand so far."""
    problem = service.problem(view)
    if not 0 <= cell < problem.shape.cells:
        raise SettingError(f"there is no cell {cell}.", f"Use one below {problem.shape.cells}.")
    others = tuple(swap for swap in view.swaps or () if swap[0] != cell)
    with torch.inference_mode(False), torch.no_grad():
        evaluator, target, _ = problem.setup(service.explainer.plan, service.evaluator_mb, service.cancel)
        prepared = evaluator.start
        for i, j in others:
            indices = [torch.tensor([k], device=problem.query.device) for k in (0, i, j)]
            prepared = evaluator.advance(prepared, *indices)
        similarity = similarity_of(problem, view)[cell].clone()
        taken = torch.tensor([j for _, j in others], dtype=torch.long, device=similarity.device)
        similarity[taken] = -torch.inf
        # Gains are computed for all cells at once and cached, so that another cell costs next to nothing.
        gain = next(iter(evaluator.gains(prepared, target, margins=True))).score[cell].clone()
        gain[taken] = -torch.inf
        ranks, count = ((similarity, SIMILAR), (gain, EVALUATED)), len(similarity)
        similar, helping = (values.topk(min(most, count)).indices for values, most in ranks)
        cells = torch.cat([similar, helping])
        states, query_cells = torch.zeros_like(cells), torch.full_like(cells, cell)
        scores, flips = evaluator.evaluate(prepared, states, query_cells, cells, target)
    rows = zip(cells.tolist(), scores.exp().tolist(), flips.tolist(), strict=True)
    candidates = [CandidateCell(*row) for row in rows]
    raising = sorted({c.cell: c for c in candidates[len(similar) :]}.values(), key=lambda c: -c.probability)
    before = float(prepared.logits[0].softmax(0)[target])
    return CellCandidates(cell, before, candidates[: len(similar)], raising[:RAISING])


def similarity_of(problem: Problem, view: View) -> Tensor:
    """Return the similarity of cells ``(h*w, n*h*w)``, by the auxiliary, or by the classifier if there is none."""
    if problem.cosine is None:
        return cosines(problem.query, problem.distractors)
    return problem.similarity(SearchSettings(tau=view.tau or "auto")).log
