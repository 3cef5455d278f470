"""Find the edits: the paper's greedy, and beam search over sets of edits.

One loop serves all methods. At every depth it takes the lists of edits it holds (one for greedy, several for a beam),
looks at the swaps that could follow, ranks them, and keeps the best. `objective` says how a list is ranked:

- ``"paper"``: ``log g + lam * log L_s`` of the latest edit, as published. Apply the best; stop when the decision has
  flipped.
- ``"set"``: ``log g + lam * mean(log L_s over its edits)``. Stop at the first depth at which a candidate flips the
  decision and take the best that does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from partswap._version import __version__
from partswap.counterfactual import Counterfactual, Edit, Step
from partswap.errors import ShapeError
from partswap.grid import GridShape, check_grid
from partswap.heads import HeadPlan, Prepared, SwapEvaluator
from partswap.heads.base import lead
from partswap.search.candidates import Candidates
from partswap.search.inputs import check_grids, check_settings, class_index, first_step, semantics
from partswap.search.screening import screened

Objective = Literal["paper", "set"]
#: ``screen="auto"`` evaluates at least so many candidates per list of edits exactly ...
AUTO_LEAST = 64
#: ... and more where they are cheap: about as many as this many multiply-adds pay for, all lists together.
AUTO_MACS = 1e9
#: ... but no more than fit into the memory, at so many bytes each in the search itself.
AUTO_BYTES = 160
#: Where they are not cheap, lists share so many times AUTO_LEAST: of eight lists that grow, few have a best one.
AUTO_SHARED = 2


@dataclass(frozen=True)
class _Path:
    """A list of edits under construction."""

    edits: tuple[tuple[int, int], ...]
    likeness: float  # sum of log L_s over the edits
    steps: tuple[Step, ...]


def find_counterfactual(
    head: nn.Module | HeadPlan,
    query: Tensor,
    distractors: Tensor,
    target: int,
    *,
    query_aux: Tensor | None = None,
    distractor_aux: Tensor | None = None,
    lam: float = 0.4,
    tau: float = 0.1,
    objective: Objective = "set",
    keep: float | None = None,
    screen: int | Literal["auto"] | None = "auto",
    beam: int = 8,
    max_edits: int | None = None,
    memory_mb: float = 1024,
    allowed: Tensor | None = None,
    relax: bool = False,
) -> Counterfactual:
    """Find which cells of the query must be replaced by which cells of the distractors.

    Parameters
    ----------
    head : torch.nn.Module or HeadPlan
        Any module from grids ``(m, d, h, w)`` to logits ``(m, classes)``, in eval mode. To explain many queries,
        make a `HeadPlan` of it once.
    query : Tensor
        Grid ``(d, h, w)``.
    distractors : Tensor
        Grids ``(n, d, h, w)`` of images of the target class.
    target : int
        The class the model should say.
    query_aux, distractor_aux : Tensor, optional
        Auxiliary grids ``(e, h', w')`` and ``(n, e, h', w')``; resized to the grid if need be. Without them there is no
        semantic term.
    lam, tau : float
        Weight and temperature of the semantic term.
    objective : {"set", "paper"}
        How edits are ranked (see the module).
    keep : float, optional
        The paper's prefilter: the fraction of all pairs, by cosine, that is considered. None or 1.0: all.
    screen : int, "auto" or None
        How many candidates are evaluated exactly per list of edits, best first-order estimate first. None: all.
    beam : int
        How many lists of edits are followed at once; 1 is greedy.
    max_edits : int, optional
        Give up after so many; by default ``h*w``.
    memory_mb : float
        Memory the evaluation of candidates may use.
    allowed : Tensor, optional
        Mask ``(h*w, n*h*w)`` of pairs that may be swapped: a hard constraint (see `candidates.same_label`). When they
        run out, the search ends.
    relax : bool
        When the allowed pairs have run out, go on with the others instead.

    Returns
    -------
    Counterfactual
        With ``flipped = False`` if `max_edits` was reached, or candidates ran out, first.

    Examples
    --------
    >>> import torch
    >>> head = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    >>> grids = torch.randn(5, 8, 7, 7, generator=torch.Generator().manual_seed(0))
    >>> said = int(head(grids[:1]).argmax())
    >>> cf = find_counterfactual(head, grids[0], grids[1:], target=(said + 1) % 3)
    >>> bool(cf.verify(head, grids[0], grids[1:]))
    True
    """
    started = time.perf_counter()
    query, distractors = check_grids(query, distractors)
    shape = GridShape(int(query.shape[1]), int(query.shape[2]))
    pairs = (shape.cells, shape.cells * len(distractors))
    lam, tau, memory_mb = float(lam), float(tau), float(memory_mb)
    check_settings(lam, tau, objective, keep, screen, beam, max_edits, memory_mb)
    likeness, filtered = semantics(query_aux, distractor_aux, shape, len(distractors), lam, tau, keep, query.device)
    if allowed is not None:
        if tuple(allowed.shape) != pairs:
            raise ShapeError(f"allowed has shape {tuple(allowed.shape)}.", f"Pass a mask of shape {pairs}.")
        allowed = allowed.to(query.device).bool()
    limit = shape.cells if max_edits is None else min(max_edits, shape.cells)

    # Gradients are needed for screening, so a caller's inference mode is left for the time being.
    with torch.inference_mode(False), torch.no_grad():
        if query.is_inference() or distractors.is_inference():
            query, distractors = query.clone(), distractors.clone()
        plan = head if isinstance(head, HeadPlan) else HeadPlan(head, shape)
        evaluator = plan.evaluator(query, distractors, int(memory_mb * 2**20))
        prepared = evaluator.start
        target = class_index(target, prepared.logits.shape[1])
        before = first_step(prepared.logits[0], target)
        search = _Search(evaluator, target, likeness, lam, objective, screen, beam)
        best, flipped = search.run(prepared, Candidates(pairs, filtered, allowed, query.device, relax=relax), limit)

    source: dict[str, Any] = {"partswap": __version__, "evaluator": evaluator.name}
    if allowed is not None and relax:
        source["outside"] = sum(not bool(allowed[i, j]) for i, j in best.edits)
    return Counterfactual(
        query_class=before.predicted,
        target=target,
        grid=shape,
        distractors=len(distractors),
        edits=tuple(Edit(i, j, j // shape.cells) for i, j in best.edits),
        before=before,
        trace=best.steps,
        flipped=flipped,
        settings={
            "lam": lam, "tau": tau, "objective": objective, "keep": keep, "screen": screen, "beam": beam,
            "max_edits": max_edits, "semantic": likeness is not None, "constrained": allowed is not None,
        },
        source=source,
        evaluations=search.evaluations,
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def find_counterfactuals(
    head: nn.Module | HeadPlan,
    queries: Tensor,
    distractors: Tensor | Sequence[Tensor],
    targets: int | Sequence[int],
    *,
    query_aux: Tensor | None = None,
    distractor_aux: Tensor | Sequence[Tensor] | None = None,
    **settings: Any,
) -> list[Counterfactual]:
    """Explain several queries; the head is looked at, and its weights laid out, only once.

    Parameters
    ----------
    head : torch.nn.Module or HeadPlan
        As in `find_counterfactual`.
    queries : Tensor
        ``(q, d, h, w)``.
    distractors : Tensor or sequence of Tensor
        ``(n, d, h, w)`` for all queries, or one such tensor per query.
    targets : int or sequence of int
        One for all, or one per query.
    query_aux, distractor_aux
        Auxiliary grids, laid out likewise.
    **settings
        As in `find_counterfactual`.
    """
    queries = check_grid(queries, "queries", ndim=4)
    count = len(queries)
    shape = GridShape(int(queries.shape[2]), int(queries.shape[3]))
    plan = head if isinstance(head, HeadPlan) else HeadPlan(head, shape)
    donors = _per_query(distractors, count)
    aims: list[Any] = list(targets) if np.ndim(targets) else [targets] * count  # type: ignore[arg-type]
    mine: list[Tensor | None] = [None] * count if query_aux is None else list(query_aux)
    theirs: list[Tensor | None] = [None] * count
    if distractor_aux is not None:
        theirs = list(_per_query(distractor_aux, count))
    columns: dict[str, Sequence[Any]] = {
        "distractors": donors,
        "targets": aims,
        "query_aux": mine,
        "distractor_aux": theirs,
    }
    for name, column in columns.items():
        if len(column) != count:
            raise ShapeError(f"{len(column)} {name} for {count} queries.", "Give one per query, or one for all.")
    return [
        find_counterfactual(
            plan, queries[k], donors[k], aims[k], query_aux=mine[k], distractor_aux=theirs[k], **settings
        )
        for k in range(count)
    ]


def _per_query(value: Tensor | Sequence[Tensor], count: int) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value] * count
    return list(value)


class _Search:
    """The loop over depths."""

    def __init__(
        self,
        evaluator: SwapEvaluator,
        target: int,
        likeness: Tensor | None,
        lam: float,
        objective: Objective,
        screen: int | Literal["auto"] | None,
        beam: int,
    ) -> None:
        self.evaluator, self.target, self.likeness = evaluator, target, likeness
        self.lam, self.objective, self.beam = lam, objective, beam
        self.screen = screen_size(evaluator, beam) if screen == "auto" else screen
        self.shared = shared_size(evaluator) if screen == "auto" else None
        self.evaluations = 0

    def run(self, prepared: Prepared, candidates: Candidates, limit: int) -> tuple[_Path, bool]:
        paths = [_Path((), 0.0, ())]
        start = prepared
        for _ in range(limit):
            state, i, j, likeness = self._proposals(prepared, paths, candidates)
            if len(i) == 0:
                break
            scores, flips = self.evaluator.evaluate(prepared, state, i, j, self.target, flips=self.objective == "set")
            self.evaluations += len(i)
            ranks = scores + self.lam * likeness
            flipping = flips.nonzero().flatten() if self.objective == "set" else flips.new_zeros(0, dtype=torch.long)
            done = len(flipping) > 0
            order = self._best(ranks, flipping if done else None)
            kept = self._distinct(order, paths, state, i, j, 1 if done else self.beam)
            prepared = self.evaluator.advance(prepared, state[kept], i[kept], j[kept])
            paths = [
                self._extend(paths[int(state[k])], int(i[k]), int(j[k]), prepared.logits[row], float(ranks[k]))
                for row, k in enumerate(kept.tolist())
            ]
            for path in paths:
                if path.steps[-1].predicted == self.target:
                    return (self._ordered(path, start) if self.objective == "set" else path), True
        return paths[0], False

    def _ordered(self, path: _Path, prepared: Prepared) -> _Path:
        """Return the same set of edits, each time the one that helps most first.

        A set is reached in several orders whose ranks differ by rounding only; this makes the order mean something,
        and the same on every machine. Where rounding also decides whether the set flips, it stays as it was found.
        """
        remaining, ordered = list(path.edits), _Path((), 0.0, ())
        while remaining:
            i, j = torch.tensor(sorted(remaining), device=prepared.cells.device).unbind(1)
            scores, _ = self.evaluator.evaluate(prepared, torch.zeros_like(i), i, j, self.target, flips=False)
            self.evaluations += len(i)
            ranks = scores
            if (likeness := self._likeness(ordered)) is not None:
                ranks = scores + self.lam * likeness[i, j]
            best = int(self._best(ranks, None)[0])
            pick = slice(best, best + 1)
            prepared = self.evaluator.advance(prepared, torch.zeros_like(i[pick]), i[pick], j[pick])
            edit = (int(i[best]), int(j[best]))
            ordered = self._extend(ordered, *edit, prepared.logits[0], float(ranks[best]))
            remaining.remove(edit)
            if ordered.steps[-1].predicted == self.target:  # perhaps not all of them were needed
                return ordered
        return path

    def _proposals(
        self, prepared: Prepared, paths: list[_Path], candidates: Candidates
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the candidates worth evaluating and the semantic part of their rank, in flat order per path."""
        gains = None
        if self.screen is not None:
            gains = self.evaluator.gains(prepared, self.target, leads=self.objective == "set")
        leads = lead(prepared.logits, self.target)
        scores = prepared.logits.log_softmax(1)[:, self.target]
        states, flats, likes, ranks, aheads = [], [], [], [], []
        for number, path in enumerate(paths):
            open_pairs = candidates.open(path.edits)
            likeness = self._likeness(path)
            if gains is not None and self.screen is not None:
                gain, *forward = next(gains)
                rank = scores[number] + (gain if likeness is None else gain + self.lam * likeness)
                ahead = leads[number] + forward[0] if forward else None
                flat = screened(rank, ahead, open_pairs, self.screen)
                ranks.append(rank.flatten()[flat])
                aheads += [] if ahead is None else [ahead.flatten()[flat]]
            else:
                flat = open_pairs.flatten().nonzero().flatten()
            states.append(torch.full_like(flat, number))
            flats.append(flat)
            likes.append(likeness.flatten()[flat] if likeness is not None else torch.zeros_like(flat).float())
        state, flat, like = torch.cat(states), torch.cat(flats), torch.cat(likes)
        if self.shared is not None and ranks and len(flat) > self.shared:
            rank = torch.cat(ranks)
            open_pairs = torch.ones_like(rank, dtype=torch.bool)
            kept = screened(rank, torch.cat(aheads) if aheads else None, open_pairs, self.shared)
            state, flat, like = state[kept], flat[kept], like[kept]
        if self.objective == "set" and len(paths) > 1 and len(flat) > 0:
            fresh = _first_of_each_set([path.edits for path in paths], state, flat, candidates.shape)
            state, flat, like = state[fresh], flat[fresh], like[fresh]
        return state, flat // candidates.shape[1], flat % candidates.shape[1], like

    def _likeness(self, path: _Path) -> Tensor | None:
        """Return the semantic part of the rank of every next edit, ``(h*w, n*h*w)``, not yet times lam."""
        if self.likeness is None or self.objective == "paper":
            return self.likeness
        return (self.likeness + path.likeness) / (len(path.edits) + 1)

    def _best(self, ranks: Tensor, among: Tensor | None) -> Tensor:
        """Return candidate numbers, best first; equal ranks: lowest flat index first."""
        if among is None:
            return torch.sort(ranks, descending=True, stable=True).indices
        return among[torch.sort(ranks[among], descending=True, stable=True).indices]

    def _distinct(self, order: Tensor, paths: list[_Path], state: Tensor, i: Tensor, j: Tensor, count: int) -> Tensor:
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

    def _extend(self, path: _Path, i: int, j: int, logits: Tensor, objective: float) -> _Path:
        likeness = 0.0 if self.likeness is None else float(self.likeness[i, j])
        probability = float(logits.softmax(0)[self.target])
        step = Step(probability, int(logits.argmax()), objective)
        return _Path((*path.edits, (i, j)), path.likeness + likeness, (*path.steps, step))


def _first_of_each_set(
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


def screen_size(evaluator: SwapEvaluator, beam: int) -> int | None:
    """Return how many candidates per list ``screen="auto"`` evaluates exactly; None if all are cheap enough."""
    count = max(AUTO_LEAST, _affordable(evaluator) // beam)
    return None if count >= evaluator.shape.cells * len(evaluator.donors) else count


def shared_size(evaluator: SwapEvaluator) -> int:
    """Return how many candidates of all lists together ``screen="auto"`` evaluates exactly, at most."""
    return max(AUTO_SHARED * AUTO_LEAST, _affordable(evaluator))


def _affordable(evaluator: SwapEvaluator) -> int:
    cheap = AUTO_MACS / max(evaluator.macs_per_candidate(), 1)
    return int(min(cheap, evaluator.memory_bytes // AUTO_BYTES))
