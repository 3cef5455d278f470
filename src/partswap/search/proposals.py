"""Which swaps are worth an exact evaluation: all that are allowed, or the best by first-order estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from partswap.evaluators import Prepared, SwapEvaluator
from partswap.evaluators.base import Gains, margin
from partswap.results.counterfactual import Step
from partswap.search.candidates import Candidates
from partswap.search.screening import EstimateResiduals, screen_size, screened, shared_size
from partswap.search.settings import SearchSettings

#: A query cell and the distractor cell that replaces it.
Pair = tuple[int, int]


@dataclass(frozen=True)
class Path:
    """A list of edits under construction."""

    edits: tuple[Pair, ...]
    similarity: float  #: sum of ``log L_s`` over the edits
    steps: tuple[Step, ...]


class Proposals(NamedTuple):
    """Swaps that are worth an exact evaluation, one per row, in ascending order of path and pair."""

    state: Tensor  #: which path each would be added to
    pair: Tensor  #: flat index of query cell and distractor cell
    i: Tensor  #: its query cell
    j: Tensor  #: its distractor cell
    similarity: Tensor  #: the semantic part of its rank, not yet times lam
    score: Tensor | None = None  #: its estimated log probability of the target; None where all swaps are evaluated
    rank: Tensor | None = None  #: its estimated rank; None likewise
    margin: Tensor | None = None  #: its estimated margin of the target; None unless sets of edits are ranked

    def edits(self, paths: Sequence[Path], row: int) -> tuple[Pair, ...]:
        """Return the edits of the path that a swap would be added to, and the swap."""
        return (*paths[int(self.state[row])].edits, (int(self.i[row]), int(self.j[row])))

    def select(self, rows: Tensor) -> Proposals:
        """Return some of them, by number or by mask."""
        return Proposals(*(None if column is None else column[rows] for column in self))  # type: ignore[arg-type]

    @classmethod
    def join(cls, parts: Sequence[Proposals]) -> Proposals:
        """Return the proposals of several paths as one."""
        columns = zip(*parts, strict=True)
        return cls(*(None if column[0] is None else torch.cat(column) for column in columns))  # type: ignore[arg-type]


class Proposer:
    """Proposes swaps; `similarity` is ``log L_s`` of every pair, ``(h*w, n*h*w)``, None without a semantic term."""

    def __init__(
        self, evaluator: SwapEvaluator, target: int, similarity: Tensor | None, settings: SearchSettings
    ) -> None:
        self.evaluator, self.target, self.similarity = evaluator, target, similarity
        self.lam, self.of_sets = settings.lam, settings.objective == "set"
        self.screen = screen_size(evaluator, settings.beam) if settings.screen == "auto" else settings.screen
        self.shared = shared_size(evaluator) if settings.screen == "auto" else None
        if self.screen is not None and not evaluator.has_gradients:
            self.screen = self.shared = None  # nothing estimates which are worth an evaluation
        self.residuals: EstimateResiduals | None = None
        #: How many swaps were evaluated exactly to correct the estimates.
        self.evaluations = 0

    def propose(self, prepared: Prepared, paths: Sequence[Path], candidates: Candidates) -> Proposals:
        """Return the swaps worth evaluating."""
        if self.screen is None:
            parts = [self._all(number, path, candidates) for number, path in enumerate(paths)]
        else:
            gains = self.evaluator.gains(prepared, self.target, margins=self.of_sets)
            scores = self.evaluator.score(prepared.logits, self.target).tolist()
            margins = margin(prepared.logits, self.target).tolist()
            parts = [
                self._screened(number, path, candidates, each, scores[number], margins[number])
                for (number, path), each in zip(enumerate(paths), gains, strict=True)
            ]
        proposals = Proposals.join(parts)
        if self.shared is not None and proposals.rank is not None and len(proposals.pair) > self.shared:
            every = torch.ones_like(proposals.rank, dtype=torch.bool)
            proposals = proposals.select(screened(proposals.rank, proposals.margin, every, self.shared))
        if self.of_sets and len(paths) > 1 and len(proposals.pair) > 0:
            edits = [path.edits for path in paths]
            proposals = proposals.select(first_of_each_set(edits, proposals.state, proposals.pair, candidates.shape))
        return proposals

    def learn(self, proposals: Proposals, scores: Tensor) -> None:
        """Take in the exact scores of proposals, for estimates to come."""
        if self.residuals is not None and proposals.score is not None:
            self.residuals.learn(proposals.pair, scores - proposals.score)

    def next_similarity(self, path: Path) -> Tensor | None:
        """Return the semantic part of the rank of every next edit, ``(h*w, n*h*w)``, not yet times lam."""
        if self.similarity is None or not self.of_sets:
            return self.similarity
        return (self.similarity + path.similarity) / (len(path.edits) + 1)

    def _all(self, number: int, path: Path, candidates: Candidates) -> Proposals:
        pair = candidates.open(path.edits).flatten().nonzero().flatten()
        return self._proposals(number, pair, candidates, self.next_similarity(path))

    def _screened(
        self, number: int, path: Path, candidates: Candidates, gains: Gains, score: float, margin: float
    ) -> Proposals:
        """Return the best swaps after one path, whose own score and margin are given, by their estimates."""
        assert self.screen is not None
        open_pairs, similarity = candidates.open(path.edits), self.next_similarity(path)
        semantic = 0.0 if similarity is None else self.lam * similarity
        if self.residuals is None:
            self.residuals = EstimateResiduals(candidates.shape, gains.score.device)
            # The published greedy takes one best swap at a time, and the gradient alone finds that one.
            if self.of_sets:
                rank = gains.score + semantic
                self.evaluations += self.residuals.measure(self.evaluator, self.target, rank, gains, open_pairs)
        rank = score + gains.score + self.residuals.score + semantic
        margins = None if gains.margin is None else margin + gains.margin + self.residuals.margin
        pair = screened(rank, margins, open_pairs, self.screen)
        return self._proposals(number, pair, candidates, similarity)._replace(
            score=score + gains.score.flatten()[pair],
            rank=rank.flatten()[pair],
            margin=None if margins is None else margins.flatten()[pair],
        )

    def _proposals(self, number: int, pair: Tensor, candidates: Candidates, similarity: Tensor | None) -> Proposals:
        i, j = pair // candidates.shape[1], pair % candidates.shape[1]
        semantic = torch.zeros_like(pair).float() if similarity is None else similarity.flatten()[pair]
        return Proposals(torch.full_like(pair, number), pair, i, j, semantic)


def first_of_each_set(paths: Sequence[tuple[Pair, ...]], state: Tensor, flat: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a mask of the candidates that lead to a set of edits which no candidate of an earlier list leads to.

    Two lists lead to the same set where they differ in one edit each and the other's is the candidate. Candidates are
    in ascending order.
    """
    pairs = shape[0] * shape[1]
    keys, fresh = state * pairs + flat, torch.ones_like(flat, dtype=torch.bool)
    by_rest: dict[frozenset[Pair], list[Pair]] = {}
    for number, edits in enumerate(paths):
        for i, j in edits:
            by_rest.setdefault(frozenset(edits) - {(i, j)}, []).append((number, i * shape[1] + j))
    for group in by_rest.values():  # lists that differ in one edit, and that edit
        lists, edit = torch.tensor(group, device=keys.device).unbind(1)
        for k in range(1, len(group)):
            later, earlier = lists[k] * pairs + edit[:k], lists[:k] * pairs + edit[k]
            places = [torch.searchsorted(keys, key).clamp(max=len(keys) - 1) for key in (later, earlier)]
            both = (keys[places[0]] == later) & (keys[places[1]] == earlier)
            fresh[places[0][both]] = False
    return fresh
