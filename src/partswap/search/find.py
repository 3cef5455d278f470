"""Find the edits: what a search is given, what it is asked, what it returns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from partswap.errors import SettingError, ShapeError
from partswap.evaluators import HeadPlan
from partswap.grid import FeatureGrids, GridShape, check_grid
from partswap.results.counterfactual import Counterfactual
from partswap.search.beam import BeamSearch
from partswap.search.candidates import Candidates, prefilter
from partswap.search.problem import Problem
from partswap.search.semantic import resolve_tau
from partswap.search.settings import SearchSettings, changed
from partswap.utils.cancel import CancelToken
from partswap.utils.notes import Note

DEFAULT = SearchSettings()
#: What may help where a search gave up: with a head that reads cells only, and one that reads a class token, too.
ADVICE = (
    Note("distractors", "Use distractors that the model takes for the target."),
    Note("layer", "Cut at an earlier layer: the class token, which stays the query's, has read less of it there."),
)


def find_counterfactual(
    head: nn.Module | HeadPlan,
    query: Tensor | FeatureGrids,
    distractors: Tensor | FeatureGrids,
    target: int,
    *,
    query_aux: Tensor | None = None,
    distractor_aux: Tensor | None = None,
    allowed: Tensor | None = None,
    relax: bool = False,
    settings: SearchSettings = DEFAULT,
    cancel: CancelToken | None = None,
    **changes: Any,
) -> Counterfactual:
    """Find which cells of the query must be replaced by which cells of the distractors.

    Parameters
    ----------
    head : torch.nn.Module or HeadPlan
        Any module from grids ``(m, d, h, w)`` to logits ``(m, classes)``, in eval mode. To explain many queries,
        make a `HeadPlan` of it once.
    query : Tensor or Grids
        Grid ``(d, h, w)``; `FeatureGrids` of one image where the head needs its context (a vision transformer).
    distractors : Tensor or Grids
        Grids ``(n, d, h, w)`` of images of the target class.
    target : int
        The class the model should say.
    query_aux, distractor_aux : Tensor, optional
        Auxiliary grids ``(e, h', w')`` and ``(n, e, h', w')``; resized to the grid if need be. Without them there is no
        semantic term.
    allowed : Tensor, optional
        Mask ``(h*w, n*h*w)`` of pairs that may be swapped: a hard constraint (see `candidates.same_label`).
    relax : bool
        When the allowed pairs have run out, go on with the others; otherwise the search ends there.
    settings : SearchSettings
        How to search.
    cancel : CancelToken, optional
        Stops the search: it is checked between batches, and raises `CancelledError`.
    **changes
        Single settings that differ: ``lam=0.2, beam=1``.

    Returns
    -------
    Counterfactual
        With ``flipped = False`` if `max_edits` was reached, or candidates ran out, first; or if, with `patience`, the
        target seems out of reach (``source.gave_up`` says why, ``source.advice`` what may help).

    Examples
    --------
    >>> import torch
    >>> head = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    >>> grids = torch.randn(5, 8, 7, 7, generator=torch.Generator().manual_seed(0))
    >>> predicted = int(head(grids[:1]).argmax())
    >>> cf = find_counterfactual(head, grids[0], grids[1:], target=(predicted + 1) % 3)
    >>> bool(cf.verify(head, grids[0], grids[1:]))
    True
    """
    problem = Problem.of(query, distractors, target, query_aux=query_aux, distractor_aux=distractor_aux)
    return search(head, problem, changed(settings, **changes), allowed=allowed, relax=relax, cancel=cancel)


def search(
    head: nn.Module | HeadPlan,
    problem: Problem,
    settings: SearchSettings,
    *,
    allowed: Tensor | None = None,
    relax: bool = False,
    method: str = "",
    semantic: bool = True,
    cancel: CancelToken | None = None,
) -> Counterfactual:
    """Solve a problem; `method` is the name its result carries. Without `semantic`, auxiliary grids do not count."""
    started = time.perf_counter()
    similarity, tau, filtered = _semantics(problem, settings) if semantic else _Semantics()
    if allowed is not None:
        if tuple(allowed.shape) != problem.pairs:
            raise ShapeError(f"allowed has shape {tuple(allowed.shape)}.", f"Pass a mask of shape {problem.pairs}.")
        allowed = allowed.to(problem.query.device).bool()
    limit = min(settings.max_edits or problem.shape.cells, problem.shape.cells)
    # Gradients are needed for screening, so a caller's inference mode is left for the time being.
    with torch.inference_mode(False), torch.no_grad():
        evaluator, target, before = problem.setup(head, settings.memory_mb, cancel)
        loop = BeamSearch(evaluator, target, similarity, settings, problem.judge)
        best = loop.run(Candidates(problem.pairs, filtered, allowed, problem.query.device, relax), limit)
    source: dict[str, Any] = {"evaluator": evaluator.name}
    if loop.gave_up:
        text = "no distractor makes the model say the target, even in place of all cells, and each edit adds too little"
        source |= {"gave_up": Note("unreachable", text), "advice": ADVICE[evaluator.context is not None]}
    if allowed is not None and relax:
        source["outside"] = sum(not bool(allowed[i, j]) for i, j in best.edits)
    return problem.to_counterfactual(
        target,
        before,
        best.edits,
        best.steps,
        source,
        method=method,
        settings={
            **settings.record(),
            **({} if similarity is None else {"tau": resolve_tau(settings, problem.auxiliary_tau)}),
            "temperature": tau,
            "semantic": similarity is not None,
            "constrained": allowed is not None,
            **({} if loop.judge is None else {"pixel": True}),
        },
        evaluations=loop.evaluations,
        seconds=time.perf_counter() - started,
    )


class _Semantics(NamedTuple):
    """What the auxiliary grids say, None where they are not asked."""

    similarity: Tensor | None = None  #: ``log L_s``
    tau: float | None = None  #: its temperature
    filtered: Tensor | None = None  #: the prefilter's mask


def _semantics(problem: Problem, settings: SearchSettings) -> _Semantics:
    filtered = settings.keep is not None and settings.keep < 1
    if problem.aux is None:
        if filtered:
            raise SettingError("keep needs auxiliary grids.", "Pass query_aux and distractor_aux, or keep=None.")
        return _Semantics()
    if settings.lam == 0 and not filtered:
        return _Semantics()
    cosine = problem.cosine
    assert cosine is not None
    mask = prefilter(cosine, settings.keep) if filtered and settings.keep is not None else None
    if settings.lam == 0:
        return _Semantics(filtered=mask)
    return _Semantics(*problem.similarity(settings), mask)


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
    queries, query_aux : Tensor
        ``(q, d, h, w)`` and ``(q, e, h', w')``.
    distractors, distractor_aux : Tensor or sequence of Tensor
        ``(n, d, h, w)`` and ``(n, e, h', w')`` for all queries, or one such tensor per query.
    targets : int or sequence of int
        One for all, or one per query.
    head, **settings
        As in `find_counterfactual`.
    """
    queries = check_grid(queries, "queries", ndim=4)
    count = len(queries)
    shape = GridShape(int(queries.shape[2]), int(queries.shape[3]))
    plan = head if isinstance(head, HeadPlan) else HeadPlan(head, shape)
    columns: dict[str, list[Any]] = {
        "distractors": [distractors] * count if isinstance(distractors, Tensor) else list(distractors),
        "targets": list(targets) if np.ndim(targets) else [targets] * count,  # type: ignore[arg-type]
        "query_aux": [None] * count if query_aux is None else list(query_aux),
        "distractor_aux": (
            [distractor_aux] * count if isinstance(distractor_aux, Tensor | None) else list(distractor_aux)
        ),
    }
    for name, column in columns.items():
        if len(column) != count:
            raise ShapeError(f"{len(column)} {name} for {count} queries.", "Give one per query, or one for all.")
    return [
        find_counterfactual(plan, query, grids, target, **settings | {"query_aux": aux, "distractor_aux": other_aux})
        for query, grids, target, aux, other_aux in zip(queries, *columns.values(), strict=True)
    ]
