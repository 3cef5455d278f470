"""Time: our ways against the authors', head by head."""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.authors import all_pairs, score_candidates, seconds_per_edit
from benchmarks.heads import evaluator_of, features, given, make
from partswap import HeadPlan, find_counterfactual
from partswap.evaluators.costs import module_macs
from partswap.grid import GridShape
from partswap.search.screening import screen_size, screened_macs

HEADS = ("vgg16", "resnet50_conv5_1", "resnet50_pooled", "vit_small")
#: Edits per timed explanation: about what real ones take.
EDITS = 4
SAMPLE = 2401


def best_of(times: int, function: Any) -> float:
    """Return the shortest of several runs, in seconds: what the machine can do when nothing disturbs it."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def exhaustive(name: str) -> dict[str, Any]:
    """One edit, one distractor, every candidate: the same scores, how much faster?"""
    head, shape = make(name)
    query, distractors, _, _ = features(shape, 1)
    with torch.no_grad():
        target = int(head(query[None]).argsort(1)[0, 0])
        pairs = all_pairs(shape[1] * shape[2], 1)
        if len(pairs) > SAMPLE:  # a 14 x 14 grid has 38,416 pairs: both ways are timed on some of them
            pairs = pairs[:: len(pairs) // SAMPLE][:SAMPLE]
        score_candidates(head, query, distractors, target, pairs[:256])  # warm up
        start = time.perf_counter()
        expected = score_candidates(head, query, distractors, target, pairs)
        theirs = time.perf_counter() - start
        kind, evaluator = evaluator_of(head, query, distractors)
        prepared = evaluator.prepare(evaluator.query[None])
        state = torch.zeros(len(pairs), dtype=torch.long)
        found = {}

        def edit() -> None:
            found["scores"], _ = evaluator.evaluate(prepared, state, pairs[:, 0], pairs[:, 1], target, flips=False)

        edit()  # the table of contributions is made once per explanation
        ours = best_of(2 if kind == "dense" else 5, edit)
    return {
        "head": name,
        "evaluator": kind,
        "candidates": len(pairs),
        "authors_seconds": theirs,
        "partswap_seconds": ours,
        "ratio": theirs / ours,
        "largest_difference": float((found["scores"] - expected).abs().max()),
    }


def explanation(name: str, count: int = 20) -> dict[str, Any]:
    """A whole explanation with many distractors and screening, set-up included, against the authors' way."""
    head, shape = make(name)
    query, distractors, query_aux, distractor_aux = features(shape, count)
    with torch.no_grad():
        target = int(head(query[None]).argsort(1)[0, 0])
    per_edit = seconds_per_edit(head, query, distractors, target)
    result = {}

    def run(**settings: Any) -> None:
        result["cf"] = find_counterfactual(
            *given(head, query), distractors, target, query_aux=query_aux, distractor_aux=distractor_aux,
            max_edits=EDITS, **settings,
        )  # fmt: skip

    run(objective="paper", beam=1)
    paper = best_of(3, lambda: run(objective="paper", beam=1))
    edits = len(result["cf"])
    default = best_of(2, run)
    return {
        "head": name,
        "distractors": count,
        "candidates": count * (shape[1] * shape[2]) ** 2,
        "edits": edits,
        "authors_seconds": per_edit * edits,
        "authors_prefiltered_seconds": 0.1 * per_edit * edits,
        "partswap_seconds": paper,
        "partswap_beam8_seconds": default,
        "ratio": per_edit * edits / paper,
        "ratio_prefiltered": 0.1 * per_edit * edits / paper,
    }


def macs(name: str, count: int) -> dict[str, Any]:
    """Multiply-adds of one edit, each way (the features' own cost left out)."""
    head, shape = make(name)
    query, distractors, _, _ = features(shape, count)
    grid = shape[1] * shape[2]
    candidates = count * grid * grid
    whole = module_macs(head, query[None])
    _, evaluator = evaluator_of(head, query, distractors)
    one = evaluator.macs_per_candidate()
    screened = min(candidates, screen_size(evaluator, beam=1) or candidates)
    return {
        "head": name,
        "distractors": count,
        "candidates": candidates,
        "authors": candidates * whole,
        "authors_prefiltered": 0.1 * candidates * whole,
        "partswap_exhaustive": candidates * one,
        "partswap_screened": screened_macs(evaluator, whole, screened),
    }


COUNTS = (1, 2, 5, 10, 20, 50)
_PER_CANDIDATE: dict[str, float] = {}


def scaling(name: str, count: int) -> dict[str, Any]:
    """Seconds per edit with `count` distractors, each way; exhaustive only as far as it takes seconds."""
    head, shape = make(name)
    query, distractors, query_aux, distractor_aux = features(shape, count)
    with torch.no_grad():
        target = int(head(query[None]).argsort(1)[0, 0])
    candidates = count * (shape[1] * shape[2]) ** 2
    if name not in _PER_CANDIDATE:
        _PER_CANDIDATE[name] = seconds_per_edit(head, query, distractors, target) / candidates
    authors = _PER_CANDIDATE[name] * candidates
    plain, asked = given(head, query)
    plan = HeadPlan(plain, GridShape(*shape[1:]))

    def run(screen: str | None, edits: int) -> None:
        find_counterfactual(
            plan, asked, distractors, target, query_aux=query_aux, distractor_aux=distractor_aux,
            objective="paper", beam=1, screen=screen, max_edits=edits,
        )  # fmt: skip

    run("auto", 1)
    return {
        "head": name,
        "distractors": count,
        "authors_seconds": authors,
        "authors_prefiltered_seconds": 0.1 * authors,
        "exhaustive_seconds": best_of(1, lambda: run(None, 1)) if count <= 5 else None,
        "screened_seconds": best_of(2, lambda: run("auto", EDITS)) / EDITS,
    }
