"""An evaluator that remembers what it was asked, for searches that are repeated with other settings.

Two searches of one problem go through many of the same grids: all begin at the query, and the best sets of edits hardly
change with a weight. A grid is known by its set of edits, so what was computed of it once, its gradients and the swaps
that were tried on it, is looked up.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from partswap.evaluators.base import Gains, Prepared, SwapEvaluator
from partswap.utils.cancel import CancelToken

#: Memory for what is remembered; whatever it is, a few grids are.
KEPT_BYTES, KEPT_LEAST = 160 * 2**20, 24

Edits = frozenset[tuple[int, int]]


@dataclass
class Tracked(Prepared):
    """Prepared grids, and the set of edits that each has gone through."""

    inner: Prepared
    edits: list[Edits]


@dataclass
class CacheEntry:
    """What is remembered of one grid."""

    gains: dict[tuple[int, bool], Gains] = field(default_factory=dict)  #: by target, with margins or without
    scores: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  #: by target: scores (NaN unknown), flips
    logits: dict[tuple[int, int], Tensor] = field(default_factory=dict)  #: by pair


class CachingEvaluator(SwapEvaluator):
    """Answers from memory what `inner` was asked before."""

    def __init__(self, inner: SwapEvaluator) -> None:
        self.inner, self.name = inner, inner.name
        self.head, self.context, self.shape = inner.head, inner.context, inner.shape
        self.query, self.donors, self.memory_bytes = inner.query, inner.donors, inner.memory_bytes
        self.measured, self.activation = inner.measured, inner.activation
        self._known: OrderedDict[Edits, CacheEntry] = OrderedDict()
        # Of every pair: two gains, a score, a flip.
        kept = min(KEPT_BYTES, inner.memory_bytes // 4)
        self._most = max(KEPT_LEAST, kept // (13 * self.shape.cells * len(self.donors)))

    @property
    def cancel(self) -> CancelToken:
        """Stops a search; what is computed, the inner evaluator computes."""
        return self.inner.cancel

    @cancel.setter
    def cancel(self, token: CancelToken) -> None:
        self.inner.cancel = token

    def with_first_cells(self, cells: int) -> CachingEvaluator:
        """Return the evaluator of swaps for the first distractor cells only; both share what either computes."""
        narrow = copy.copy(self)
        narrow.donors = self.donors[:cells]
        return narrow

    def prepare(self, cells: Tensor) -> Prepared:
        """Prepare grids given as cells ``(states, h*w, d)``, of which nothing is known."""
        return self.inner.prepare(cells)

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return logits after swaps; those of one grid, which screening begins with, are remembered."""
        if not isinstance(prepared, Tracked) or len(prepared.edits) > 1:
            return self.inner.logits(_inner(prepared), state, i, j)
        known, pairs = self._of(prepared.edits[0]).logits, list(zip(i.tolist(), j.tolist(), strict=True))
        new = [k for k, pair in enumerate(pairs) if pair not in known]
        if new:
            found = self.inner.logits(prepared.inner, state[new], i[new], j[new])
            known.update({pairs[k]: row for k, row in zip(new, found, strict=True)})
        return torch.stack([known[pair] for pair in pairs])

    def bytes_per_candidate(self) -> int:
        """Return how much memory `logits` needs for each candidate."""
        return self.inner.bytes_per_candidate()

    def fixed_bytes(self) -> int:
        """Return how much memory `logits` takes whatever the number of candidates."""
        return self.inner.fixed_bytes()

    def macs_per_candidate(self) -> float:
        """Return how many multiply-adds `logits` takes for each candidate."""
        return self.inner.macs_per_candidate()

    @property
    def start(self) -> Prepared:
        """The query's own grid, prepared."""
        return _tracked(self.inner.start, [frozenset()])

    def advance(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Prepared:
        """Return the grids after these swaps, prepared."""
        assert isinstance(prepared, Tracked)
        found = self.inner.advance(prepared.inner, state, i, j)
        edits = [prepared.edits[s] | {(a, b)} for s, a, b in zip(state.tolist(), i.tolist(), j.tolist(), strict=True)]
        return _tracked(found, edits)

    def gradients(self, prepared: Prepared, target: int, *, margins: bool) -> list[Tensor]:
        """Return gradients ``(states, h*w, d)``."""
        return self.inner.gradients(_inner(prepared), target, margins=margins)

    def gains(self, prepared: Prepared, target: int, *, margins: bool) -> Iterator[Gains]:
        """Yield for every state what each swap would change to first order; computed of new grids only."""
        assert isinstance(prepared, Tracked)
        known = [self._of(edits) for edits in prepared.edits]
        new = [k for k, one in enumerate(known) if (target, margins) not in one.gains]
        if new:
            found = self.inner.gains(index_states(prepared.inner, new), target, margins=margins)
            for k, kinds in zip(new, found, strict=True):
                known[k].gains[target, margins] = kinds
        for one in known:
            yield Gains(*(gain[:, : len(self.donors)] for gain in one.gains[target, margins] if gain is not None))

    def evaluate(
        self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor, target: int, *, flips: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the target's log probability and whether the decision flips; only new swaps are evaluated."""
        assert isinstance(prepared, Tracked)
        known = [self._scores(edits, target) for edits in prepared.edits]
        scores, flipped = (torch.stack(kind)[state, i, j] for kind in zip(*known, strict=True))
        new = scores.isnan().nonzero().flatten()
        if len(new) > 0:
            s, a, b = state[new], i[new], j[new]
            # Whether it flips is always asked for: a later search may want to know.
            found, turns = self.inner.evaluate(prepared.inner, s, a, b, target, flips=True)
            scores[new], flipped[new] = found, turns
            for number in s.unique().tolist():
                mine = s == number
                known[number][0][a[mine], b[mine]] = found[mine]
                known[number][1][a[mine], b[mine]] = turns[mine]
        return scores, flipped

    def _of(self, edits: Edits) -> CacheEntry:
        found = self._known.setdefault(edits, CacheEntry())
        self._known.move_to_end(edits)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return found

    def _scores(self, edits: Edits, target: int) -> tuple[Tensor, Tensor]:
        one = self._of(edits)
        if target not in one.scores:
            unknown = self.donors.new_full((self.shape.cells, len(self.inner.donors)), torch.nan)
            one.scores[target] = unknown, torch.zeros_like(unknown, dtype=torch.bool)
        return one.scores[target]


def index_states(prepared: Prepared, rows: list[int]) -> Prepared:
    """Return some of the states of prepared grids, whatever else is remembered of them."""
    made = object.__new__(type(prepared))
    for name, value in vars(prepared).items():
        if isinstance(value, dict):
            value = {key: each[rows] for key, each in value.items()}
        elif isinstance(value, Tensor):
            value = value[rows]
        setattr(made, name, value)
    return made


def _tracked(inner: Prepared, edits: list[Edits]) -> Tracked:
    return Tracked(inner.cells, inner.logits, inner, edits)


def _inner(prepared: Prepared) -> Prepared:
    return prepared.inner if isinstance(prepared, Tracked) else prepared
