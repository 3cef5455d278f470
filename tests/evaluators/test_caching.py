"""What is remembered is what would be computed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from partswap.evaluators import CachingEvaluator, HeadPlan, caching
from partswap.grid import GridShape
from partswap.search import METHODS
from partswap.search.problem import Problem
from partswap.search.settings import SearchSettings
from small_heads import make_head

KINDS = ("pooled", "flattened", "convolutional")


def posed(kind: str, seed: int = 0) -> tuple[HeadPlan, Problem]:
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    head = make_head(kind, 8, 5)
    query, donors = torch.randn(8, 7, 7, generator=g), torch.randn(4, 8, 7, 7, generator=g)
    said = int(head(query[None]).argmax())
    aux = {"query_aux": torch.randn(6, 7, 7, generator=g), "distractor_aux": torch.randn(4, 6, 7, 7, generator=g)}
    return HeadPlan(head, GridShape(7, 7)), Problem.of(query, donors, (said + 1) % 5, **aux)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("screen", [12, None])
def test_a_repeated_search_finds_what_a_fresh_one_finds(kind, screen):
    plan, problem = posed(kind)
    kept = replace(problem, remember=True)
    for lam, beam, tau in ((0.4, 4, "auto"), (0.1, 4, "auto"), (0.1, 1, 0.2), (1.0, 6, 0.2), (0.4, 4, "auto")):
        method = METHODS.get("partswap")(lam=lam, beam=beam, tau=tau, screen=screen, max_edits=4)
        mine, fresh = method.solve(plan, kept), method.solve(plan, problem)
        assert mine.edits == fresh.edits
        assert [s.probability for s in mine.trace] == pytest.approx([s.probability for s in fresh.trace], abs=1e-5)
        assert mine.evaluations == fresh.evaluations
    for name in ("paper", "goyal", "scout", "hard"):
        method = METHODS.get(name)()
        assert method.solve(plan, kept).edits == method.solve(plan, problem).edits


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_computed_twice(kind):
    plan, problem = posed(kind)
    problem = replace(problem, remember=True)
    method = METHODS.get("partswap")(screen=12, max_edits=3)
    first = method.solve(plan, problem)
    evaluator = problem.evaluator(plan, method.memory_mb)
    assert isinstance(evaluator, CachingEvaluator)
    asked = []
    for name in ("evaluate", "gains", "logits"):
        plain = getattr(evaluator.inner, name)
        setattr(evaluator.inner, name, lambda *a, plain=plain, name=name, **k: asked.append(name) or plain(*a, **k))
    assert method.solve(plan, problem).edits == first.edits
    assert asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_distractors_share_what_is_known(kind):
    plan, problem = posed(kind)
    whole = replace(problem, remember=True)
    method = METHODS.get("partswap")(screen=12, max_edits=3)
    method.solve(plan, whole)
    for count in (1, 3):
        few = whole.narrowed(count, whole.about)
        fresh = Problem.of(
            problem.query,
            problem.distractors[:count],
            problem.target,
            query_aux=problem.query_aux,
            distractor_aux=problem.distractor_aux[:count],
        )
        mine, plain = method.solve(plan, few), method.solve(plan, fresh)
        assert (mine.edits, mine.distractors) == (plain.edits, count)
        assert [s.probability for s in mine.trace] == pytest.approx([s.probability for s in plain.trace], abs=1e-5)
        assert few.evaluator(plan, method.memory_mb)._known is whole.evaluator(plan, method.memory_mb)._known
        # And what the few find out does not confuse the many.
        assert method.solve(plan, whole).edits == method.solve(plan, problem).edits


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    monkeypatch.setattr(caching, "KEPT_BYTES", 0)
    monkeypatch.setattr(caching, "KEPT_LEAST", 2)
    plan, problem = posed("convolutional")
    kept = replace(problem, remember=True)
    for lam in (0.4, 0.1, 1.0):
        method = METHODS.get("partswap")(lam=lam, screen=12, max_edits=3)
        assert method.solve(plan, kept).edits == method.solve(plan, problem).edits
        assert len(kept.evaluator(plan, 1024)._known) <= 2


def test_similarity_is_cached_per_temperature_and_bounded():
    _, problem = posed("pooled")
    cached = replace(problem, remember=True)
    ours, paper = SearchSettings(tau=0.1), SearchSettings(tau=0.1, objective="paper")
    assert cached.similarity(ours) is cached.similarity(ours)
    assert cached.similarity(paper) is not cached.similarity(ours)
    for k in range(1, 30):
        settings = SearchSettings(tau=k / 10)
        assert torch.equal(cached.similarity(settings).log, problem.similarity(settings).log)
    assert len(cached._similarities) <= 8
    assert len(problem._similarities) == 0


def test_a_search_nobody_waits_for_can_be_ended():
    plan, problem = posed("pooled")
    problem = replace(problem, remember=True)
    evaluator = problem.evaluator(plan, 1024)

    def stop(edits: int) -> None:
        assert edits == 0  # the query itself is looked at first
        raise KeyboardInterrupt

    evaluator.pulse = stop
    with pytest.raises(KeyboardInterrupt):
        METHODS.get("partswap")().solve(plan, problem)
