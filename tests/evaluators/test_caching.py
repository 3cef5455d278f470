"""What is remembered is what would be computed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from partswap.evaluators import CachingEvaluator, HeadPlan, caching
from partswap.grid import GridShape
from partswap.search import METHODS
from partswap.search.cache import SearchCache
from partswap.search.methods.hard import Hard
from partswap.search.problem import Problem
from partswap.search.settings import SearchSettings
from partswap.utils.cancel import CancelledError, CancelToken
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
    kept = replace(problem, cache=SearchCache())
    for lam, beam, tau in ((0.4, 4, "auto"), (0.1, 4, "auto"), (0.1, 1, 0.2), (1.0, 6, 0.2), (0.4, 4, "auto")):
        method = METHODS.get("partswap")(lam=lam, beam=beam, tau=tau, screen=screen, max_edits=4)
        mine, fresh = method.solve(plan, kept), method.solve(plan, problem)
        assert mine.edits == fresh.edits
        assert [s.target_probability for s in mine.trace] == pytest.approx(
            [s.target_probability for s in fresh.trace], abs=1e-5
        )
        assert mine.evaluations == fresh.evaluations
    for name in ("paper", "goyal", "scout", "hard"):
        method = METHODS.get(name)()
        assert method.solve(plan, kept).edits == method.solve(plan, problem).edits


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_computed_twice(kind):
    plan, problem = posed(kind)
    problem = replace(problem, cache=SearchCache())
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
def test_fewer_distractors_share_what_is_entries(kind):
    plan, problem = posed(kind)
    whole = replace(problem, cache=SearchCache())
    method = METHODS.get("partswap")(screen=12, max_edits=3)
    method.solve(plan, whole)
    for count in (1, 3):
        few = whole.with_first_distractors(count, whole.about)
        fresh = Problem.of(
            problem.query,
            problem.distractors[:count],
            problem.target,
            query_aux=problem.query_aux,
            distractor_aux=problem.distractor_aux[:count],
        )
        mine, plain = method.solve(plan, few), method.solve(plan, fresh)
        assert (mine.edits, mine.distractors) == (plain.edits, count)
        assert [s.target_probability for s in mine.trace] == pytest.approx(
            [s.target_probability for s in plain.trace], abs=1e-5
        )
        assert few.evaluator(plan, method.memory_mb)._entries is whole.evaluator(plan, method.memory_mb)._entries
        # And what the few find out does not confuse the many.
        assert method.solve(plan, whole).edits == method.solve(plan, problem).edits


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    monkeypatch.setattr(caching, "CACHE_BYTES", 0)
    monkeypatch.setattr(caching, "CACHE_LEAST", 2)
    plan, problem = posed("convolutional")
    kept = replace(problem, cache=SearchCache())
    for lam in (0.4, 0.1, 1.0):
        method = METHODS.get("partswap")(lam=lam, screen=12, max_edits=3)
        assert method.solve(plan, kept).edits == method.solve(plan, problem).edits
        assert len(kept.evaluator(plan, 1024)._entries) <= 2


def test_the_former_name_of_the_cache_works_for_one_release():
    _, problem = posed("pooled")
    with pytest.warns(DeprecationWarning, match="SearchCache"):
        assert Problem.of(problem.query, problem.distractors, 1, remember=True).cache is not None
    assert Problem.of(problem.query, problem.distractors, 1, remember=False).cache is None


def test_similarity_is_cached_per_temperature_and_bounded():
    _, problem = posed("pooled")
    cached = replace(problem, cache=SearchCache())
    ours, paper = SearchSettings(tau=0.1), SearchSettings(tau=0.1, objective="paper")
    assert cached.similarity(ours) is cached.similarity(ours)
    assert cached.similarity(paper) is not cached.similarity(ours)
    for k in range(1, 30):
        settings = SearchSettings(tau=k / 10)
        assert torch.equal(cached.similarity(settings).log, problem.similarity(settings).log)
    assert len(cached.cache) <= 8
    assert problem.cache is None


@pytest.mark.parametrize("cache", [None, SearchCache()])
@pytest.mark.parametrize("name", METHODS.names())
def test_a_search_nobody_waits_for_is_stopped(name, cache):
    plan, problem = posed("pooled")
    problem = replace(problem, cache=cache)
    cancel = CancelToken(lambda: True)
    method = Hard(by="clusters", clusters=2) if name == "hard" else METHODS.get(name)()
    with pytest.raises(CancelledError):
        method.solve(plan, problem, cancel)
    assert cancel.progress == 0
    assert method.solve(plan, problem).edits == method.solve(plan, replace(problem, cache=None)).edits


def test_a_search_is_stopped_between_batches_and_tells_how_far_it_is():
    plan, problem = posed("flattened")
    checks = []

    class Recorded(CancelToken):
        def check(self, progress=None):
            checks.append(progress)
            super().check(progress)

    cancel = Recorded(lambda: len(checks) > 5)
    with pytest.raises(CancelledError):
        METHODS.get("partswap")(lam=0, max_edits=6, memory_mb=0.5).solve(plan, problem, cancel)
    assert len(checks) == 6
    assert None in checks  # within one depth
