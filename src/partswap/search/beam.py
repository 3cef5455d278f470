"""The loop over edits: the paper's greedy, and beam search over sets of edits.

One loop serves all methods. At every depth it takes the lists of edits it holds (one for greedy, several for a beam),
looks at the swaps that could follow, ranks them, and keeps the best. `objective` says how a list is ranked:

- ``"paper"``: ``log g + lam * log L_s`` of the latest edit, as published. Apply the best; stop when the decision has
  flipped.
- ``"set"``: ``log g + lam * mean(log L_s over its edits)``. Stop at the first depth at which a candidate flips the
  decision. Of those that do, take the one whose swaps are most alike: how sure the model then is matters no more.
  (Without a semantic term, the one it is surest of.) Given a judge, such as the pixel check, the first of them in that
  order that it accepts; if it accepts none of the first few, an edit more is tried, and then the usual one is taken.

A search with patience ends before all cells are swapped where the target seems out of reach: no distractor, put in as
a whole, makes the model say it, and at the pace so far the cells run out first. No distractor alone proves nothing:
swaps of several reach what none of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from partswap.evaluators import Prepared, SwapEvaluator
from partswap.evaluators.base import margin
from partswap.results.counterfactual import Step
from partswap.search.candidates import Candidates
from partswap.search.screening import EstimateResiduals, screen_size, screened, shared_size
from partswap.search.settings import SearchSettings

#: Sets that flip the decision and are put to the judge, at most and at once, at every depth ...
TRIES, AT_ONCE = 32, 8
#: ... and how many edits more than usual are tried where it accepts none of them.
DEEPER = 1

#: Tells of sets of edits ``(query cell, distractor cell)`` which are accepted.
Judge = Callable[[Sequence[Sequence[tuple[int, int]]]], Sequence[object]]


@dataclass(frozen=True)
class Path:
    """A list of edits under construction."""

    edits: tuple[tuple[int, int], ...]
    similarity: float  # sum of log L_s over the edits
    steps: tuple[Step, ...]


class Proposals(NamedTuple):
    """Swaps that are worth an exact evaluation."""

    state: Tensor  #: which list of edits each would be added to
    i: Tensor  #: its query cell
    j: Tensor  #: its distractor cell
    similarity: Tensor  #: the semantic part of its rank, not yet times lam
    estimate: Tensor | None  #: its first-order score; None where all swaps are evaluated


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
        self.judge = judge if settings.objective == "set" else None
        self.lam, self.objective, self.beam = settings.lam, settings.objective, settings.beam
        self.screen = screen_size(evaluator, self.beam) if settings.screen == "auto" else settings.screen
        self.shared = shared_size(evaluator) if settings.screen == "auto" else None
        if self.screen is not None and not evaluator.has_gradients:
            self.screen = self.shared = None  # nothing says which are worth it
        self.evaluations = 0
        self.corrections: EstimateResiduals | None = None
        #: What the model says of the query.
        self.said = int(evaluator.start.logits[0].argmax())
        #: Whether the search was ended because the target seems out of reach.
        self.gave_up = False
        self.patience = settings.patience if settings.max_edits is None else None
        #: The target's lead after every edit, of the list that is nearest to it.
        self._leads: list[float] = []

    def run(self, candidates: Candidates, limit: int) -> Path:
        """Return the best list of at most `limit` edits from the query on; its last step says whether it flips."""
        paths = [Path((), 0.0, ())]
        start = prepared = self.evaluator.start
        usual: Path | None = None  # what is taken if the judge accepts nothing
        patience = DEEPER
        for depth in range(limit):
            self.evaluator.cancel.check(depth)
            if usual is None and self._out_of_reach(prepared, limit - depth):
                self.gave_up = True
                break
            found = self._proposals(prepared, paths, candidates)
            state, i, j = found.state, found.i, found.j
            if len(i) == 0:
                break
            scores, flips = self.evaluator.evaluate(prepared, state, i, j, self.target, flips=self.objective == "set")
            self.evaluations += len(i)
            if self.corrections is not None and found.estimate is not None:
                self.corrections.learn(i * candidates.shape[1] + j, scores - found.estimate)
            ranks = scores + self.lam * found.similarity
            flipping = flips.nonzero().flatten() if self.objective == "set" else flips.new_zeros(0, dtype=torch.long)
            done = len(flipping) > 0
            alike = self.similarity is not None
            order = self._best(found.similarity if done and alike else ranks, flipping if done else None)
            accepted = None
            if done and self.judge is not None:
                accepted = self._accepted(order, paths, found)
                if accepted is None:
                    if usual is None:
                        usual = self._ordered(self._step(prepared, paths, found, order[:1], ranks)[1][0], start)
                    if patience == 0:
                        return usual
                    patience -= 1
                    done, order = False, self._best(ranks, None)
                else:
                    order = accepted
            kept = self._distinct(order, paths, state, i, j, 1 if done else self.beam)
            prepared, paths = self._step(prepared, paths, found, kept, ranks)
            for path in paths if usual is None or accepted is not None else ():
                if path.steps[-1].predicted == self.target:
                    if self.objective != "set":
                        return path
                    return self._ordered(path, start, whole=accepted is not None)
        return usual or paths[0]

    def _step(
        self, prepared: Prepared, paths: list[Path], found: Proposals, kept: Tensor, ranks: Tensor
    ) -> tuple[Prepared, list[Path]]:
        """Return the grids and the lists of edits after the swaps that are kept."""
        state, i, j = found.state, found.i, found.j
        after = self.evaluator.advance(prepared, state[kept], i[kept], j[kept])
        return after, [
            self._extend(paths[int(state[k])], int(i[k]), int(j[k]), after.logits[row], float(ranks[k]))
            for row, k in enumerate(kept.tolist())
        ]

    def _accepted(self, order: Tensor, paths: list[Path], found: Proposals) -> Tensor | None:
        """Return the number of the first candidate that the judge accepts, ``(1,)``, None if there is none."""
        assert self.judge is not None
        for some in order[:TRIES].split(AT_ONCE):
            sets = [(*paths[int(found.state[k])].edits, (int(found.i[k]), int(found.j[k]))) for k in some.tolist()]
            for row, good in enumerate(self.judge(sets)):
                if good:
                    first: Tensor = some[row : row + 1]
                    return first
        return None

    def _out_of_reach(self, prepared: Prepared, remaining: int) -> bool:
        """Tell whether to end a search that has come so far with so many edits `remaining`."""
        if self.patience is None:
            return False
        leads = self._leads
        leads.append(float(margin(prepared.logits, self.target).max()))
        depth = len(leads) - 1
        if depth < self.patience:
            return False
        # The better of the pace over all edits and over the latest ones: whichever way it bends, it is given a chance.
        pace = max((leads[-1] - leads[-1 - back]) / back for back in (depth, self.patience))
        return leads[-1] + remaining * pace < 0 and not self._whole

    @cached_property
    def _whole(self) -> bool:
        """Whether the model says the target of any distractor's cells in place of all of the query's.

        With a vision transformer it may not though it says so of the distractor, since the class token stays.
        """
        grids = self.evaluator.donors.view(-1, self.evaluator.shape.cells, self.evaluator.donors.shape[1])
        return any(bool((self.evaluator.run(g[None]).argmax(1) == self.target).any()) for g in grids)

    def _ordered(self, path: Path, prepared: Prepared, *, whole: bool = False) -> Path:
        """Return the same set of edits, the most alike first; without a semantic term, each time what helps most.

        A set is reached in several orders whose ranks differ by rounding only; this makes the order mean something,
        and the same on every machine. Where rounding also decides whether the set flips, it stays as it was found.
        Unless the `whole` set is wanted, edits that turn out not to be needed are left out.
        """
        remaining, ordered = list(path.edits), Path((), 0.0, ())
        while remaining:
            i, j = torch.tensor(sorted(remaining), device=prepared.cells.device).unbind(1)
            scores, _ = self.evaluator.evaluate(prepared, torch.zeros_like(i), i, j, self.target, flips=False)
            self.evaluations += len(i)
            similarity = self._similarity(ordered)
            ranks = scores if similarity is None else scores + self.lam * similarity[i, j]
            best = int(self._best(scores if self.similarity is None else self.similarity[i, j], None)[0])
            pick = slice(best, best + 1)
            prepared = self.evaluator.advance(prepared, torch.zeros_like(i[pick]), i[pick], j[pick])
            edit = (int(i[best]), int(j[best]))
            ordered = self._extend(ordered, *edit, prepared.logits[0], float(ranks[best]))
            remaining.remove(edit)
            flips = ordered.steps[-1].predicted == self.target  # perhaps not all of them were needed
            if flips and not (whole and remaining):
                return ordered
        return path

    def _proposals(self, prepared: Prepared, paths: list[Path], candidates: Candidates) -> Proposals:
        """Return the candidates worth evaluating, in flat order per path."""
        gains = None
        if self.screen is not None:
            gains = self.evaluator.gains(prepared, self.target, leads=self.objective == "set")
        leads = margin(prepared.logits, self.target)
        scores = self.evaluator.score(prepared.logits, self.target)
        states, flats, likes, ranks, aheads, estimates = [], [], [], [], [], []
        for number, path in enumerate(paths):
            open_pairs = candidates.open(path.edits)
            similarity = self._similarity(path)
            if gains is not None and self.screen is not None:
                gain, *forward = next(gains)
                like = 0.0 if similarity is None else self.lam * similarity
                if self.corrections is None:
                    self.corrections = EstimateResiduals(candidates.shape, gain.device)
                    # The published greedy takes one best swap at a time, and the gradient alone finds that one.
                    if self.objective == "set":
                        self.evaluations += self.corrections.measure(
                            self.evaluator, self.target, gain + like, (gain, *forward), open_pairs
                        )
                rank = scores[number] + gain + self.corrections.score + like
                ahead = leads[number] + forward[0] + self.corrections.lead if forward else None
                flat = screened(rank, ahead, open_pairs, self.screen)
                ranks.append(rank.flatten()[flat])
                aheads += [] if ahead is None else [ahead.flatten()[flat]]
                estimates.append(scores[number] + gain.flatten()[flat])
            else:
                flat = open_pairs.flatten().nonzero().flatten()
            states.append(torch.full_like(flat, number))
            flats.append(flat)
            likes.append(similarity.flatten()[flat] if similarity is not None else torch.zeros_like(flat).float())
        columns = [torch.cat(column) for column in (states, flats, likes, *([estimates] if estimates else []))]
        if self.shared is not None and ranks and len(columns[0]) > self.shared:
            rank = torch.cat(ranks)
            open_pairs = torch.ones_like(rank, dtype=torch.bool)
            kept = screened(rank, torch.cat(aheads) if aheads else None, open_pairs, self.shared)
            columns = [column[kept] for column in columns]
        if self.objective == "set" and len(paths) > 1 and len(columns[0]) > 0:
            fresh = first_of_each_set([path.edits for path in paths], columns[0], columns[1], candidates.shape)
            columns = [column[fresh] for column in columns]
        state, flat, like, *estimate = columns
        i, j = flat // candidates.shape[1], flat % candidates.shape[1]
        return Proposals(state, i, j, like, estimate[0] if estimate else None)

    def _similarity(self, path: Path) -> Tensor | None:
        """Return the semantic part of the rank of every next edit, ``(h*w, n*h*w)``, not yet times lam."""
        if self.similarity is None or self.objective == "paper":
            return self.similarity
        return (self.similarity + path.similarity) / (len(path.edits) + 1)

    def _best(self, ranks: Tensor, among: Tensor | None) -> Tensor:
        """Return candidate numbers, best first; equal ranks: lowest flat index first."""
        if among is None:
            return torch.sort(ranks, descending=True, stable=True).indices
        return among[torch.sort(ranks[among], descending=True, stable=True).indices]

    def _distinct(self, order: Tensor, paths: list[Path], state: Tensor, i: Tensor, j: Tensor, count: int) -> Tensor:
        """Return the best `count` candidates that lead to different sets of edits."""
        if len(paths) == 1 or self.objective == "set":  # they all do
            return order[:count]
        seen: set[frozenset[tuple[int, int]]] = set()
        kept: list[int] = []
        # The first few are nearly always enough; the whole order can have millions.
        for k in (k for part in order.split(1024) for k in part.tolist()):
            key = frozenset((*paths[int(state[k])].edits, (int(i[k]), int(j[k]))))
            if key not in seen:
                seen.add(key)
                kept.append(k)
            if len(kept) == count:
                break
        return torch.tensor(kept, device=order.device)

    def _extend(self, path: Path, i: int, j: int, logits: Tensor, objective: float) -> Path:
        similarity = 0.0 if self.similarity is None else float(self.similarity[i, j])
        said = self.evaluator.probabilities(logits)
        step = Step(float(said[self.target]), int(logits.argmax()), objective, float(said[self.said]))
        return Path((*path.edits, (i, j)), path.similarity + similarity, (*path.steps, step))


def first_of_each_set(
    paths: Sequence[tuple[tuple[int, int], ...]], state: Tensor, flat: Tensor, shape: tuple[int, int]
) -> Tensor:
    """Return a mask of the candidates that lead to a set of edits which no candidate of an earlier list leads to.

    Two lists lead to the same set where they differ in one edit each and the other's is the candidate. Candidates are
    in ascending order.
    """
    pairs = shape[0] * shape[1]
    keys, fresh = state * pairs + flat, torch.ones_like(flat, dtype=torch.bool)
    alike: dict[frozenset[tuple[int, int]], list[tuple[int, int]]] = {}
    for number, edits in enumerate(paths):
        for i, j in edits:
            alike.setdefault(frozenset(edits) - {(i, j)}, []).append((number, i * shape[1] + j))
    for group in alike.values():  # lists that differ in one edit, and that edit
        lists, edit = torch.tensor(group, device=keys.device).unbind(1)
        for k in range(1, len(group)):
            mine, theirs = lists[k] * pairs + edit[:k], lists[:k] * pairs + edit[k]
            places = [torch.searchsorted(keys, key).clamp(max=len(keys) - 1) for key in (mine, theirs)]
            both = (keys[places[0]] == mine) & (keys[places[1]] == theirs)
            fresh[places[0][both]] = False
    return fresh
