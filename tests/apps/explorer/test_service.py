"""Cached results are those that a search would return: the same edits, with less work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from partswap.apps.explorer.cells import candidates_of
from partswap.apps.explorer.memory import resident_bytes
from partswap.apps.explorer.scheduler import BusyError, RequestScheduler
from partswap.apps.explorer.server import ExplorerState
from partswap.apps.explorer.service import PROBLEMS
from partswap.apps.explorer.view import View
from partswap.errors import ClassIndexError, ImageError, PartswapError
from partswap.metrics.clarity import CRITERIA, clarity
from partswap.search.apply import apply_edits
from partswap.search.problem import Problem
from partswap.utils.cancel import CancelledError


def test_the_examples_are_a_clear_one_a_hard_one_and_a_mistake(state):
    service = state.service
    assert [example.title for example in service.examples] == ["A clear one", "A hard one", "The model is wrong"]
    clear, hard, wrong = (example.view for example in service.examples)
    assert service.first_image == clear.image
    rank = [clarity(cf := service.with_pixel_check(view), service.evidence(view, cf)) for view in (clear, hard)]
    assert rank[0].criteria == CRITERIA  # the same part, no background, it holds in pixels, a plain outcome
    assert rank[0] > rank[1]
    assert not service.correct[wrong.image]
    assert wrong.target == service.labels[wrong.image]


def pairs(cf):
    return [(e.query_cell, e.distractor_cell) for e in cf.edits]


def test_every_slider_gives_what_the_library_gives(state):
    service = state.service
    view = service.with_defaults(View())
    features, explainer = service.features, service.explainer
    for change in (
        {}, {"lam": 0.1}, {"lam": 1.5}, {"beam": 1}, {"beam": 3}, {"tau": 0.05}, {"distractors": 2}, {"edits": 1},
        {"method": "goyal"}, {"method": "paper"}, {"method": "scout"}, {"method": "hard"}, {},
    ):  # fmt: skip
        one = view.with_(**change)
        found = service.solve(one)
        distractors = service.distractor_indices(one)[: service.distractor_count(one)]
        plain = explainer.explain(
            features.select([one.image]), features.select(distractors), one.target, method=service.method(one),
            keep_misclassified=True,
        )  # fmt: skip
        assert pairs(found) == pairs(plain), change
        assert [s.target_probability for s in found.trace] == pytest.approx(
            [s.target_probability for s in plain.trace], abs=1e-4
        )


def test_another_weight_computes_little_anew(state):
    """The problem, its evaluator and what that found out are kept; another class is another problem."""
    service = state.service
    view = service.with_defaults(View())
    service.solve(view)
    problem = service.problem(view)
    evaluator = problem.evaluator(service.explainer.plan, service.evaluator_mb)
    asked = []
    plain = evaluator.inner.evaluate
    evaluator.inner.evaluate = lambda *given, **more: asked.append(len(given[1])) or plain(*given, **more)
    again = view.with_(lam=view.lam + 1e-9)  # no result is kept of it, but all it looks at is known
    service.solve(again)
    assert service.problem(again) is problem
    assert sum(asked) == 0
    service.solve(view.with_(lam=1.0))
    assert problem.evaluator(service.explainer.plan, service.evaluator_mb) is evaluator
    assert service.problem(view.with_(distractors=1)) is not problem


def test_the_cache_of_problems_is_bounded(state):
    for k in range(PROBLEMS + 2):
        state.service.problem(state.service.with_defaults(View(image=k)))
    assert len(state.service._problems) == PROBLEMS


def test_a_hundred_problems_stay_within_memory(run_context, config):
    """It takes some seconds: a leak shows over many problems, and each search must leave something behind."""
    memory_mb, before = 128, 0
    state = ExplorerState(run_context, config, memory_mb)
    service = state.service
    images = [k for k in range(len(service.labels)) if service.correct[k]]
    views = [
        View(image=k, target=target, edits=2)
        for k in images[:34]
        for target in [t for t in service.correct_images if t != service.predicted[k]][:3]
    ][:100]
    most = 0
    for number, view in enumerate(views):
        service.solve(service.with_defaults(view))
        most = max(most, service.cached_bytes())
        if number == len(views) // 4:
            before = resident_bytes()
    assert len(views) == 100
    assert 0 < most <= memory_mb / 2 * 2**20
    assert resident_bytes() - before < memory_mb * 2**20
    state.close()


def test_own_swaps_say_what_the_head_says(state):
    service = state.service
    view = service.with_defaults(View())
    found = service.solve(view)
    mine = service.solve(view.with_(swaps=tuple(pairs(found))))
    assert pairs(mine) == pairs(found)
    assert [s.target_probability for s in mine.trace] == pytest.approx(
        [s.target_probability for s in found.trace], abs=1e-4
    )
    assert mine.flipped == found.flipped
    features = service.features
    query, distractors = features.select([view.image]), features.select(service.distractor_indices(view))
    plain = apply_edits(
        service.explainer.plan, Problem.of(query.cut_grids, distractors.grids, view.target), pairs(found)
    )
    assert plain.trace[-1].target_probability == pytest.approx(mine.trace[-1].target_probability, abs=1e-4)
    assert bool(mine.verify(service.explainer.cut.head, query.grids[0], distractors.grids))


def test_a_cell_tells_what_its_swaps_do(state):
    service = state.service
    view = service.with_defaults(View())
    found = candidates_of(service, view, 24)
    for match in (*found.similar, *found.raising):
        after = service.solve(view.with_(swaps=((24, match.cell),)))
        assert after.probability == pytest.approx(match.probability, abs=1e-4)
        assert after.flipped == match.flips
    assert found.raising[0].probability >= max(m.probability for m in found.similar) - 0.05
    # After a swap by hand, the next one is on top of it, and its distractor is taken.
    first = (10, found.similar[0].cell)
    later = candidates_of(service, view.with_(swaps=(first,)), 24)
    assert later.before == pytest.approx(service.solve(view.with_(swaps=(first,))).probability, abs=1e-4)
    assert first[1] not in {m.cell for m in (*later.similar, *later.raising)}


def test_impossible_wishes_are_refused(state):
    service = state.service
    view = service.with_defaults(View())
    said = service.solve(view).query_class
    with pytest.raises(ClassIndexError, match="already says"):
        service.with_defaults(view.with_(target=said))
    with pytest.raises(ClassIndexError):
        service.with_defaults(view.with_(target=5000))
    with pytest.raises(ImageError):
        service.with_defaults(View(image=10**6))
    with pytest.raises(ImageError, match="Drop it again"):
        service.with_defaults(View(upload="0" * 24))


# -- the scheduler -------------------------------------------------------------------------------------------------


def test_one_search_at_a_time_and_the_latest_only():
    scheduler, running, most, order = RequestScheduler(), [0], [0], []
    begun, go = threading.Event(), threading.Event()

    def work(number: int) -> int:
        running[0] += 1
        most[0] = max(most[0], running[0])
        if number == 0:
            begun.set()
            go.wait(10)
        order.append(number)
        running[0] -= 1
        return number

    async def scenario() -> list[object]:
        tasks = [asyncio.create_task(scheduler.do("tab", lambda: work(0)))]
        await asyncio.to_thread(begun.wait, 10)
        tasks += [asyncio.create_task(scheduler.do("tab", lambda k=k: work(k))) for k in range(1, 6)]
        await asyncio.sleep(0.05)
        with pytest.raises(CancelledError):
            scheduler.cancel.check(0)  # the running one learns that nobody waits for it
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(scenario())
    assert [isinstance(one, CancelledError) for one in found[1:5]] == [True] * 4
    assert found[5] == 5
    assert order == [0, 5]
    assert most == [1]
    scheduler.close()


def test_a_pile_of_requests_is_refused():
    scheduler = RequestScheduler(waiting=3)
    go = threading.Event()

    async def scenario() -> list[object]:
        tasks = [asyncio.create_task(scheduler.do("", lambda: go.wait(10))) for _ in range(8)]
        await asyncio.sleep(0.05)
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(scenario())
    assert sum(isinstance(one, BusyError) for one in found) == 5
    assert asyncio.run(scheduler.do("", lambda: 7)) == 7  # and afterwards it works again
    scheduler.close()


def long_work(scheduler: RequestScheduler, done: list[str], reached: threading.Event) -> None:
    """Work for ten seconds, unless nobody waits for it."""
    reached.set()
    for _ in range(1000):
        scheduler.cancel.check(0)
        threading.Event().wait(0.01)
    done.append("long")


def test_spare_time_is_used_and_given_up_at_once():
    scheduler, done = RequestScheduler(), []
    reached = threading.Event()
    long = partial(long_work, scheduler, done, reached)

    async def scenario() -> int:
        scheduler.prefetch([lambda: done.append("short"), long, lambda: done.append("never")])
        await asyncio.to_thread(reached.wait, 10)
        return await scheduler.do("tab", lambda: 7)

    assert asyncio.run(scenario()) == 7
    assert done == ["short"]
    scheduler.close()


def test_other_spare_work_takes_the_place_of_what_is_under_way():
    scheduler, done = RequestScheduler(), []
    reached, over = threading.Event(), threading.Event()
    long = partial(long_work, scheduler, done, reached)

    def hopeless() -> Iterator[Callable[[], None]]:
        raise PartswapError("there is no such view.")
        yield long

    scheduler.prefetch([long])
    assert reached.wait(10)
    scheduler.prefetch(hopeless())
    scheduler.prefetch([lambda: done.append("short"), over.set])
    assert over.wait(10)
    assert done == ["short"]
    scheduler.close()


def test_where_the_hand_is_tells_what_comes_first(state):
    service = state.service
    view = service.with_defaults(View())
    near = list(service.prefetch_candidates(view))
    for slider, field in (("lam", "lam"), ("tau", "tau"), ("n", "distractors"), ("edits", "edits"), ("beam", "beam")):
        first = list(service.prefetch_candidates(view, slider))
        assert set(first) == set(near)
        moved = [getattr(one, field) != getattr(view, field) for one in first]
        assert moved == sorted(moved, reverse=True)
        assert any(moved)


def test_next_positions_are_near_and_possible(state):
    service = state.service
    view = service.with_defaults(View())
    near = list(service.prefetch_candidates(view))
    assert view not in near
    assert len(near) == len(set(near))
    assert {one.image for one in near} == {view.image}
    assert all(
        1 <= one.distractors <= len(service.distractor_indices(view)) or one.distractors == view.distractors
        for one in near
    )
    assert list(service.prefetch_candidates(view.with_(swaps=()))) == []


def test_an_outdated_search_ends_early(state):
    service = state.service
    view = service.with_defaults(View(image=1))
    with pytest.raises(CancelledError), service.cancel.when(lambda: True):
        service.solve(view)
    assert len(service.solve(view)) > 0


def test_a_search_that_takes_longer_than_a_page_waits_goes_on_from_where_it_was(state):
    service = state.service
    view = service.with_defaults(View(image=2))
    assert service.solve_within(view, -1) is None
    cf = service.solve_within(view, 60)
    assert cf is not None
    assert pairs(cf) == pairs(service.solve(view))


def test_progress_is_told_and_work_can_be_stopped():
    scheduler, ended, reached = RequestScheduler(), [], threading.Event()

    def work() -> None:
        try:
            for k in range(1000):
                scheduler.cancel.check(k // 10)
                if k == 25:
                    reached.set()
                threading.Event().wait(0.01)
        except CancelledError:
            ended.append("early")
            raise

    async def scenario() -> None:
        task = asyncio.create_task(scheduler.do("tab", work))
        await asyncio.to_thread(reached.wait, 10)
        now = scheduler.progress("tab")
        assert now.running
        assert now.edits >= 2
        assert now.seconds > 0.2
        assert not scheduler.progress("another").running
        scheduler.stop("another")
        scheduler.stop("tab")
        with pytest.raises(CancelledError):
            await task

    asyncio.run(scenario())
    assert ended == ["early"]
    assert not scheduler.progress("tab").running
    scheduler.close()
