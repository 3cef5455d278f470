"""The loop over edits: the paper's greedy, and beam search over sets of edits.

One loop serves all methods. At every depth it takes the lists of edits it holds (one for greedy, several for a beam),
looks at the swaps that could follow, ranks them, and keeps the best. `objective` says how a list is ranked:

- ``"paper"``: ``log g + lam * log L_s`` of the latest edit, as published. Apply the best; stop when the decision has
  flipped.
- ``"set"``: ``log g + lam * mean(log L_s over its edits)``. Stop at the first depth at which a candidate flips the
  decision. Of those that do, take the one whose swaps are most alike: how sure the model then is matters no more.
  (Without a semantic term, the one it is surest of.) Given a judge, such as the pixel check, the first of them in that
  order that it accepts; if it accepts none of the first few, an edit more is tried, and then the first one is taken.

A search with patience ends before all cells are swapped where the target seems out of reach: no distractor, put in as
a whole, makes the model say it, and at the pace so far the cells run out first. No distractor alone proves nothing:
swaps of several reach what none of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from partswap.evaluators import Prepared, SwapEvaluator
from partswap.evaluators.base import margin
from partswap.search.candidates import Candidates
from partswap.search.problem import step_of
from partswap.search.proposals import Pair, Path, Proposals, Proposer
from partswap.search.settings import SearchSettings

#: Sets that flip the decision and are put to the judge, at most and at once, at every depth ...
TRIES, AT_ONCE = 32, 8
#: ... and how many further edits are tried where it accepts none of them.
DEEPER = 1

#: Returns for sets of edits ``(query cell, distractor cell)`` which of them are accepted.
Judge = Callable[[Sequence[Sequence[Pair]]], Sequence[object]]


class BeamSearch:
    """The loop over depths; `similarity` is ``log L_s`` of every pair, ``(h*w, n*h*w)``."""

    def __init__(
        self,
        evaluator: SwapEvaluator,
        target: int,
        similarity: Tensor | None,
        settings: SearchSettings,
        judge: Judge | None = None,
    ) -> None:
        self.evaluator, self.target, self.similarity = evaluator, target, similarity
        self.of_sets = settings.objective == "set"
        self.judge = judge if self.of_sets else None
        self.lam, self.beam = settings.lam, settings.beam
        self.proposer = Proposer(evaluator, target, similarity, settings)
        #: What the model says of the query.
        self.query_class = int(evaluator.start.logits[0].argmax())
        #: Whether the search was ended because the target seems out of reach.
        self.gave_up = False
        self.patience = settings.patience if settings.max_edits is None else None
        #: The target's margin after every edit, of the path that is nearest to it.
        self._margins: list[float] = []
        self._evaluations = 0

    @property
    def evaluations(self) -> int:
        """How many edited grids were evaluated exactly."""
        return self._evaluations + self.proposer.evaluations

    def run(self, candidates: Candidates, limit: int) -> Path:
        """Return the best list of at most `limit` edits from the query on; its last step says whether it flips."""
        prepared, paths = self.evaluator.start, [Path((), 0.0, ())]
        fallback: Path | None = None  # flips the decision, but the judge does not accept it
        deeper = DEEPER
        for depth in range(limit):
            self.evaluator.cancel.check(depth)
            if fallback is None and self._out_of_reach(prepared, limit - depth):
                self.gave_up = True
                break
            proposals = self.proposer.propose(prepared, paths, candidates)
            if len(proposals.pair) == 0:
                break
            ranks, flipping = self._evaluate(prepared, proposals)
            accepted = self._accept(paths, proposals, flipping)
            if accepted is None and len(flipping) > 0:
                if fallback is None:
                    fallback = self._ordered(self._keep(prepared, paths, proposals, flipping[:1], ranks)[1][0])
                if deeper == 0:
                    return fallback
                deeper -= 1
            chosen = self._best_distinct(paths, proposals, ranks) if accepted is None else accepted
            prepared, paths = self._keep(prepared, paths, proposals, chosen, ranks)
            flipped = next((path for path in paths if path.steps[-1].predicted == self.target), None)
            if flipped is not None and (fallback is None or accepted is not None):
                whole = self.judge is not None and accepted is not None
                return self._ordered(flipped, whole=whole) if self.of_sets else flipped
        return fallback or paths[0]

    def _evaluate(self, prepared: Prepared, proposals: Proposals) -> tuple[Tensor, Tensor]:
        """Return the exact rank of each proposal, and the numbers of those that flip the decision, best first.

        None are said to flip with the paper's objective, which takes the best ranked whether it flips or not.
        """
        scores, flips = self.evaluator.evaluate(
            prepared, proposals.state, proposals.i, proposals.j, self.target, flips=self.of_sets
        )
        self._evaluations += len(scores)
        self.proposer.learn(proposals, scores)
        ranks = scores + self.lam * proposals.similarity
        if not self.of_sets:
            return ranks, flips.new_zeros(0, dtype=torch.long)
        flipping = flips.nonzero().flatten()
        quality = ranks if self.similarity is None else proposals.similarity
        return ranks, flipping[_best_first(quality[flipping])]

    def _accept(self, paths: list[Path], proposals: Proposals, flipping: Tensor) -> Tensor | None:
        """Return the number ``(1,)`` of the first flipping proposal that the judge accepts, None if there is none."""
        if len(flipping) == 0 or self.judge is None:
            return flipping[:1] if len(flipping) > 0 else None
        for batch in flipping[:TRIES].split(AT_ONCE):
            verdicts = self.judge([proposals.edits(paths, row) for row in batch.tolist()])
            for place, verdict in enumerate(verdicts):
                if verdict:
                    first: Tensor = batch[place : place + 1]
                    return first
        return None

    def _best_distinct(self, paths: list[Path], proposals: Proposals, ranks: Tensor) -> Tensor:
        """Return the numbers of the best ranked proposals that lead to different sets of edits, one per beam."""
        order = _best_first(ranks)
        if len(paths) == 1 or self.of_sets:  # they all do
            return order[: self.beam]
        sets: set[frozenset[Pair]] = set()
        chosen: list[int] = []
        # The first few are nearly always enough; the whole order can have millions.
        for row in (row for part in order.split(1024) for row in part.tolist()):
            edits = frozenset(proposals.edits(paths, row))
            if edits not in sets:
                sets.add(edits)
                chosen.append(row)
            if len(chosen) == self.beam:
                break
        return torch.tensor(chosen, device=order.device)

    def _keep(
        self, prepared: Prepared, paths: list[Path], proposals: Proposals, chosen: Tensor, ranks: Tensor
    ) -> tuple[Prepared, list[Path]]:
        """Return the grids and the paths after the chosen swaps."""
        swaps = proposals.select(chosen)
        after = self.evaluator.advance(prepared, swaps.state, swaps.i, swaps.j)
        rows = zip(swaps.state.tolist(), swaps.i.tolist(), swaps.j.tolist(), ranks[chosen].tolist(), strict=True)
        return after, [
            self._extend(paths[state], (i, j), logits, rank)
            for (state, i, j, rank), logits in zip(rows, after.logits, strict=True)
        ]

    def _extend(self, path: Path, edit: Pair, logits: Tensor, objective: float) -> Path:
        """Return a path with one more edit, after which the head returns `logits` ``(classes,)``."""
        similarity = 0.0 if self.similarity is None else float(self.similarity[edit])
        step = step_of(self.evaluator, logits, self.target, self.query_class, objective)
        return Path((*path.edits, edit), path.similarity + similarity, (*path.steps, step))

    def _ordered(self, path: Path, *, whole: bool = False) -> Path:
        """Return the same set of edits, the most alike first; without a semantic term, each time what helps most.

        A set is reached in several orders whose ranks differ by rounding only; this makes the order mean something,
        and the same on every machine. Where rounding also decides whether the set flips, it stays as it was found.
        Unless the `whole` set is wanted, edits that turn out not to be needed are left out.
        """
        remaining, ordered, prepared = list(path.edits), Path((), 0.0, ()), self.evaluator.start
        while remaining:
            i, j = torch.tensor(sorted(remaining), device=prepared.cells.device).unbind(1)
            scores, _ = self.evaluator.evaluate(prepared, torch.zeros_like(i), i, j, self.target, flips=False)
            self._evaluations += len(i)
            similarity = self.proposer.next_similarity(ordered)
            ranks = scores if similarity is None else scores + self.lam * similarity[i, j]
            best = int(_best_first(scores if self.similarity is None else self.similarity[i, j])[0])
            row = slice(best, best + 1)
            prepared = self.evaluator.advance(prepared, torch.zeros_like(i[row]), i[row], j[row])
            edit = (int(i[best]), int(j[best]))
            ordered = self._extend(ordered, edit, prepared.logits[0], float(ranks[best]))
            remaining.remove(edit)
            flips = ordered.steps[-1].predicted == self.target  # perhaps not all of them were needed
            if flips and not (whole and remaining):
                return ordered
        return path

    def _out_of_reach(self, prepared: Prepared, remaining: int) -> bool:
        """Tell whether to end a search that has come so far with so many edits `remaining`."""
        if self.patience is None:
            return False
        margins = self._margins
        margins.append(float(margin(prepared.logits, self.target).max()))
        depth = len(margins) - 1
        if depth < self.patience:
            return False
        # The better of the pace over all edits and over the latest ones: whichever way it bends, it is given a chance.
        pace = max((margins[-1] - margins[-1 - back]) / back for back in (depth, self.patience))
        return margins[-1] + remaining * pace < 0 and not self._whole_distractor_flips

    @cached_property
    def _whole_distractor_flips(self) -> bool:
        """Whether the model says the target of any distractor's cells in place of all of the query's.

        With a vision transformer it may not though it says so of the distractor, since the class token stays.
        """
        grids = self.evaluator.donors.view(-1, self.evaluator.shape.cells, self.evaluator.donors.shape[1])
        return any(bool((self.evaluator.run(g[None]).argmax(1) == self.target).any()) for g in grids)


def _best_first(values: Tensor) -> Tensor:
    """Return the indices of values from the highest down; of equal ones the lowest index first."""
    return torch.sort(values, descending=True, stable=True).indices
