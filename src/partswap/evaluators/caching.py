"""An evaluator that caches what it computes, for searches that are repeated with other settings.

Two searches of one problem go through many of the same grids: all begin at the query, and the best sets of edits hardly
change with a weight. A grid is identified by its set of edits, so what was computed of it once, its gradients and the
swaps that were tried on it, is looked up.
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

#: Memory for what is cached, and how many grids are whatever it is.
CACHE_BYTES, CACHE_LEAST = 160 * 2**20, 24

Edits = frozenset[tuple[int, int]]


@dataclass
class Tracked(Prepared):
    """Prepared grids, and the set of edits that each has gone through."""

    inner: Prepared
    edits: list[Edits]


@dataclass
class CacheEntry:
    """What is cached of one grid."""

    gains: dict[tuple[int, bool], Gains] = field(default_factory=dict)  #: by target, with margins or without
    scores: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  #: by target: scores (NaN: not yet), flips
    logits: dict[tuple[int, int], Tensor] = field(default_factory=dict)  #: by pair


class CachingEvaluator(SwapEvaluator):
    """Computes with `inner`, each value once."""

    def __init__(self, inner: SwapEvaluator) -> None:
        self.inner, self.name = inner, inner.name
        self.head, self.context, self.shape = inner.head, inner.context, inner.shape
        self.query, self.donors, self.memory_bytes = inner.query, inner.donors, inner.memory_bytes
        self.measured, self.activation = inner.measured, inner.activation
        self._entries: OrderedDict[Edits, CacheEntry] = OrderedDict()
        # Of every pair: two gains, a score, a flip.
        cache_bytes = min(CACHE_BYTES, inner.memory_bytes // 4)
        self._most = max(CACHE_LEAST, cache_bytes // (13 * self.shape.cells * len(self.donors)))

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
        """Prepare grids given as cells ``(states, h*w, d)``; nothing of them is cached."""
        return self.inner.prepare(cells)

    def logits(self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return logits after swaps; those of one grid, which screening begins with, are cached."""
        if not isinstance(prepared, Tracked) or len(prepared.edits) > 1:
            return self.inner.logits(_inner(prepared), state, i, j)
        cached, pairs = self._entry(prepared.edits[0]).logits, list(zip(i.tolist(), j.tolist(), strict=True))
        new = [k for k, pair in enumerate(pairs) if pair not in cached]
        if new:
            logits = self.inner.logits(prepared.inner, state[new], i[new], j[new])
            cached.update({pairs[k]: row for k, row in zip(new, logits, strict=True)})
        return torch.stack([cached[pair] for pair in pairs])

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
        after = self.inner.advance(prepared.inner, state, i, j)
        edits = [prepared.edits[s] | {(a, b)} for s, a, b in zip(state.tolist(), i.tolist(), j.tolist(), strict=True)]
        return _tracked(after, edits)

    def gradients(self, prepared: Prepared, target: int, *, margins: bool) -> list[Tensor]:
        """Return gradients ``(states, h*w, d)``."""
        return self.inner.gradients(_inner(prepared), target, margins=margins)

    def gains(self, prepared: Prepared, target: int, *, margins: bool) -> Iterator[Gains]:
        """Yield for every state what each swap would change to first order; computed of new grids only."""
        assert isinstance(prepared, Tracked)
        entries = [self._entry(edits) for edits in prepared.edits]
        new = [k for k, entry in enumerate(entries) if (target, margins) not in entry.gains]
        if new:
            computed = self.inner.gains(index_states(prepared.inner, new), target, margins=margins)
            for k, gains in zip(new, computed, strict=True):
                entries[k].gains[target, margins] = gains
        for entry in entries:
            yield Gains(*(gain[:, : len(self.donors)] for gain in entry.gains[target, margins] if gain is not None))

    def evaluate(
        self, prepared: Prepared, state: Tensor, i: Tensor, j: Tensor, target: int, *, flips: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the target's log probability and whether the decision flips; only new swaps are evaluated."""
        assert isinstance(prepared, Tracked)
        tables = [self._scores(edits, target) for edits in prepared.edits]
        scores, flipped = (torch.stack(kind)[state, i, j] for kind in zip(*tables, strict=True))
        new = scores.isnan().nonzero().flatten()
        if len(new) > 0:
            s, a, b = state[new], i[new], j[new]
            # Whether it flips is always asked for: a later search may want to know.
            scores[new], flipped[new] = self.inner.evaluate(prepared.inner, s, a, b, target, flips=True)
            for number in s.unique().tolist():
                rows = s == number
                for table, values in zip(tables[number], (scores, flipped), strict=True):
                    table[a[rows], b[rows]] = values[new[rows]]
        return scores, flipped

    def _entry(self, edits: Edits) -> CacheEntry:
        entry = self._entries.setdefault(edits, CacheEntry())
        self._entries.move_to_end(edits)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return entry

    def _scores(self, edits: Edits, target: int) -> tuple[Tensor, Tensor]:
        entry = self._entry(edits)
        if target not in entry.scores:
            scores = self.donors.new_full((self.shape.cells, len(self.inner.donors)), torch.nan)
            entry.scores[target] = scores, torch.zeros_like(scores, dtype=torch.bool)
        return entry.scores[target]


def index_states(prepared: Prepared, rows: list[int]) -> Prepared:
    """Return some of the states of prepared grids, with all that belongs to them."""
    selected = object.__new__(type(prepared))
    for name, value in vars(prepared).items():
        if isinstance(value, dict):
            value = {key: each[rows] for key, each in value.items()}
        elif isinstance(value, Tensor):
            value = value[rows]
        setattr(selected, name, value)
    return selected


def _tracked(inner: Prepared, edits: list[Edits]) -> Tracked:
    return Tracked(inner.cells, inner.logits, inner, edits)


def _inner(prepared: Prepared) -> Prepared:
    return prepared.inner if isinstance(prepared, Tracked) else prepared
