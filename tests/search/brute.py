"""The search, written as plainly as possible: every candidate is tried on the whole head, one grid at a time.

Nothing here uses the engine. The golden cases' expected edits come from here. A `gap` is how much better than the next
best every choice was; where it is tiny, rounding may decide otherwise in another implementation, unless candidates are
exactly the same (copies of a distractor), where the lowest index wins by definition.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

Pair = tuple[int, int]


class Problem:
    """A query, its distractors and how alike their cells are, in double precision."""

    def __init__(
        self,
        head: nn.Module,
        query: Tensor,
        distractors: Tensor,
        target: int,
        *,
        query_aux: Tensor | None = None,
        distractor_aux: Tensor | None = None,
        lam: float = 0.4,
        tau: float = 0.1,
        recurring: bool = False,
        keep: float | None = None,
        allowed: Tensor | None = None,
        mean: bool = True,
    ) -> None:
        self.head, self.target, self.lam = copy.deepcopy(head).double().eval(), target, lam
        self.query = query.double()
        channels, height, self.width = query.shape
        self.cells = height * self.width
        self.donors = distractors.double().permute(0, 2, 3, 1).reshape(-1, channels)
        self.pairs = [(i, j) for i in range(self.cells) for j in range(len(self.donors))]
        self.similarity: dict[Pair, float] = {}
        self.filtered: set[Pair] | None = None
        if query_aux is not None and distractor_aux is not None:
            self._compare(query_aux.double(), distractor_aux.double(), tau, keep)
            if recurring:
                self._recur(query_aux.double(), distractor_aux.double())
        self.allowed = None if allowed is None else {(i, j) for i, j in self.pairs if allowed[i, j]}
        self.mean = mean  # the mean of log L_s over a set; its sum is wrong, which a golden case must show
        self.gap = math.inf

    def _compare(self, mine: Tensor, theirs: Tensor, tau: float, keep: float | None) -> None:
        u = [cell / cell.norm() for cell in mine.flatten(1).T]
        v = [cell / cell.norm() for image in theirs for cell in image.flatten(1).T]
        cosine = {(i, j): float(u[i] @ v[j]) for i, j in self.pairs}
        for i in range(self.cells):
            total = math.log(sum(math.exp(cosine[i, j] / tau) for j in range(len(v))))
            self.similarity.update({(i, j): cosine[i, j] / tau - total for j in range(len(v))})
        if keep is not None:
            order = sorted(self.pairs, key=lambda pair: (-cosine[pair], pair))
            self.filtered = set(order[: max(1, math.floor(keep * len(order)))])

    def _recur(self, mine: Tensor, theirs: Tensor) -> None:
        """Ours: counterparts within each pair of images, which recur in all of them."""
        images = [[cell / cell.norm() for cell in image.flatten(1).T] for image in (mine, *theirs)]
        others = range(1, len(images))
        every = [float(a @ b) for a in images[0] for k in others for b in images[k]]
        centre = sum(every) / len(every)
        tau = 0.65 * math.sqrt(sum((c - centre) ** 2 for c in every) / (len(every) - 1))

        def counterpart(k: int, i: int, m: int, j: int) -> float:
            """Return how likely cell i of image k and cell j of image m are each other's counterpart."""
            here = math.exp(float(images[k][i] @ images[m][j]) / tau)
            over_m = sum(math.exp(float(images[k][i] @ b) / tau) for b in images[m])
            over_k = sum(math.exp(float(a @ images[m][j]) / tau) for a in images[k])
            return (math.log(here / over_m) + math.log(here / over_k)) / 2

        def has_one(k: int, i: int, among: list[int]) -> float:
            """Return how likely a cell has a counterpart in an image, on average over some images."""
            best = [max(counterpart(k, i, m, j) for j in range(self.cells)) for m in among]
            return sum(best) / len(best)

        mine_has = [has_one(0, i, list(others)) for i in range(self.cells)]
        theirs_have = {
            (m, j): has_one(m, j, [k for k in range(len(images)) if k != m]) for m in others for j in range(self.cells)
        }
        for i, flat in self.pairs:
            m, j = flat // self.cells + 1, flat % self.cells
            self.similarity[i, flat] = counterpart(0, i, m, j) + mine_has[i] + theirs_have[m, j]

    def logits(self, edits: Iterable[Pair]) -> Tensor:
        """Return what the whole head says of the edited grid."""
        grid = self.query.clone()
        for i, j in edits:
            grid[:, i // self.width, i % self.width] = self.donors[j]
        with torch.no_grad():
            return self.head(grid[None])[0]

    def flips(self, edits: Iterable[Pair]) -> bool:
        """Tell whether the edited grid is the target."""
        return int(self.logits(edits).argmax()) == self.target

    def score(self, edits: Iterable[Pair]) -> float:
        """Return the log-probability of the target."""
        return float(self.logits(edits).log_softmax(0)[self.target])

    def open(self, edits: tuple[Pair, ...]) -> list[Pair]:
        """Return the pairs that may come next; the prefilter's rejects come back when the others have run out."""
        free = [(i, j) for i, j in self.pairs if all(i != a and j != b for a, b in edits)]
        free = [pair for pair in free if self.allowed is None or pair in self.allowed]
        kept = [pair for pair in free if self.filtered is None or pair in self.filtered]
        return kept or free

    def ranked(self, ranks: dict[tuple[Pair, ...], float]) -> list[tuple[Pair, ...]]:
        """Return lists of edits, best first; ranks that differ by less than rounding count as equal: the first wins."""
        return sorted(ranks, key=lambda edits: -round(ranks[edits], 9))

    def see_gap(self, ranks: dict[tuple[Pair, ...], float], order: list[tuple[Pair, ...]], count: int) -> None:
        """Remember how far the last of the first `count` is ahead of the next that is not equal to it."""
        last = round(ranks[order[:count][-1]], 9)
        self.gap = min([self.gap, *(last - ranks[edits] for edits in order[count:] if round(ranks[edits], 9) < last)])


def greedy(problem: Problem) -> list[Pair]:
    """The paper's search: apply the best candidate until the decision flips."""
    edits: tuple[Pair, ...] = ()
    while not problem.flips(edits):
        ranks = {
            (*edits, pair): problem.score((*edits, pair)) + problem.lam * problem.similarity.get(pair, 0.0)
            for pair in problem.open(edits)
        }
        if not ranks:
            break
        order = problem.ranked(ranks)
        problem.see_gap(ranks, order, 1)
        edits = order[0]
    return list(edits)


def set_rank(problem: Problem, edits: tuple[Pair, ...]) -> float:
    """Return ``log g + lam * mean(log L_s)`` of a set of edits."""
    similarity = sum(problem.similarity.get(pair, 0.0) for pair in edits)
    return problem.score(edits) + problem.lam * similarity / (len(edits) if problem.mean else 1)


def beam_over_sets(problem: Problem, beam: int) -> list[Pair]:
    """Keep the best few sets; at the first depth at which one flips, take the most alike that does, best edit first."""
    kept: list[tuple[Pair, ...]] = [()]
    while True:
        ranks: dict[tuple[Pair, ...], float] = {}
        seen: set[frozenset[Pair]] = set()
        for edits in kept:
            for pair in problem.open(edits):
                if frozenset((*edits, pair)) not in seen:
                    seen.add(frozenset((*edits, pair)))
                    ranks[*edits, pair] = set_rank(problem, (*edits, pair))
        if not ranks:
            return list(kept[0])
        order = problem.ranked(ranks)
        flipping = [edits for edits in order if problem.flips(edits)]
        if flipping:
            if problem.similarity:
                ranks = {edits: sum(problem.similarity[pair] for pair in edits) / len(edits) for edits in flipping}
                flipping = problem.ranked(ranks)
            problem.see_gap(ranks, flipping, 1)
            return in_order(problem, flipping[0])
        problem.see_gap(ranks, order, beam)
        kept = order[:beam]


def in_order(problem: Problem, chosen: tuple[Pair, ...]) -> list[Pair]:
    """Return the edits of a set until the decision flips: the most alike first, else each time what helps most."""
    done: tuple[Pair, ...] = ()
    while not problem.flips(done):
        left = [pair for pair in sorted(chosen) if pair not in done]
        ranks = {(*done, pair): problem.similarity.get(pair, problem.score((*done, pair))) for pair in left}
        order = problem.ranked(ranks)
        problem.see_gap(ranks, order, 1)
        done = order[0]
    return list(done)
