"""What is remembered is what would be computed: the same edits, with less work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from partswap.apps.explorer.cells import matches_of
from partswap.apps.explorer.memory import resident_bytes
from partswap.apps.explorer.scheduler import BusyError, RequestScheduler
from partswap.apps.explorer.server import ExplorerState
from partswap.apps.explorer.service import PROBLEMS, Kept
from partswap.apps.explorer.view import View
from partswap.errors import ClassIndexError, ImageError, PartswapError
from partswap.metrics.clarity import CRITERIA, clarity
from partswap.search.apply import apply_edits
from partswap.search.problem import Problem
from partswap.utils.cancel import CancelledError


def test_the_examples_are_a_clear_one_a_hard_one_and_a_mistake(site):
    room = site.room
    assert [example.title for example in room.examples] == ["A clear one", "A hard one", "The model is wrong"]
    clear, hard, wrong = (example.view for example in room.examples)
    assert room.first == clear.image
    rank = [clarity(cf := room.checked(view), room.evidence(view, cf)) for view in (clear, hard)]
    assert rank[0].criteria == CRITERIA  # the same part, no background, it holds in pixels, a plain outcome
    assert rank[0] > rank[1]
    assert not room.right[wrong.image]
    assert wrong.target == room.labels[wrong.image]


def pairs(cf):
    return [(e.query_cell, e.distractor_cell) for e in cf.edits]


def test_every_slider_gives_what_the_library_gives(site):
    room = site.room
    view = room.settled(View())
    features, explainer = room.features, room.explainer
    for change in (
        {}, {"lam": 0.1}, {"lam": 1.5}, {"beam": 1}, {"beam": 3}, {"tau": 0.05}, {"distractors": 2}, {"edits": 1},
        {"method": "goyal"}, {"method": "paper"}, {"method": "scout"}, {"method": "hard"}, {},
    ):  # fmt: skip
        one = view.with_(**change)
        found = room.solve(one)
        donors = room.drawn(one)[: room.count(one)]
        plain = explainer.explain(
            features.select([one.image]), features.select(donors), one.target, method=room.method(one),
            keep_misclassified=True,
        )  # fmt: skip
        assert pairs(found) == pairs(plain), change
        assert [s.probability for s in found.trace] == pytest.approx([s.probability for s in plain.trace], abs=1e-4)


def test_another_weight_computes_little_anew(site):
    """The problem, its evaluator and what that found out are kept; another class is another problem."""
    room = site.room
    view = room.settled(View())
    room.solve(view)
    problem = room.problem(view)
    evaluator = problem.evaluator(room.explainer.plan, room.evaluator_mb)
    asked = []
    plain = evaluator.inner.evaluate
    evaluator.inner.evaluate = lambda *given, **more: asked.append(len(given[1])) or plain(*given, **more)
    again = view.with_(lam=view.lam + 1e-9)  # no result is kept of it, but all it looks at is known
    room.solve(again)
    assert room.problem(again) is problem
    assert sum(asked) == 0
    room.solve(view.with_(lam=1.0))
    assert problem.evaluator(room.explainer.plan, room.evaluator_mb) is evaluator
    assert room.problem(view.with_(distractors=1)) is not problem


def test_what_is_kept_is_bounded(site):
    kept = Kept(3)
    for k in range(10):
        kept.get(k, lambda k=k: k)
    assert len(kept) == 3
    for k in range(PROBLEMS + 2):
        site.room.problem(site.room.settled(View(image=k)))
    assert len(site.room._problems) == PROBLEMS


def test_a_hundred_problems_stay_within_memory(bench, config):
    """It takes some seconds: a leak shows over many problems, and each search must leave something behind."""
    memory_mb, before = 128, 0
    site = ExplorerState(bench, config, memory_mb)
    room = site.room
    images = [k for k in range(len(room.labels)) if room.right[k]]
    views = [
        View(image=k, target=target, edits=2)
        for k in images[:34]
        for target in [t for t in room.donors_of if t != room.said[k]][:3]
    ][:100]
    most = 0
    for number, view in enumerate(views):
        room.solve(room.settled(view))
        most = max(most, room.kept_bytes())
        if number == len(views) // 4:
            before = resident_bytes()
    assert len(views) == 100
    assert 0 < most <= memory_mb / 2 * 2**20
    assert resident_bytes() - before < memory_mb * 2**20
    site.close()


def test_own_swaps_say_what_the_head_says(site):
    room = site.room
    view = room.settled(View())
    found = room.solve(view)
    mine = room.solve(view.with_(swaps=tuple(pairs(found))))
    assert pairs(mine) == pairs(found)
    assert [s.probability for s in mine.trace] == pytest.approx([s.probability for s in found.trace], abs=1e-4)
    assert mine.flipped == found.flipped
    features = room.features
    query, donors = features.select([view.image]), features.select(room.drawn(view))
    plain = apply_edits(room.explainer.plan, Problem.of(query.cut_grids, donors.grids, view.target), pairs(found))
    assert plain.trace[-1].probability == pytest.approx(mine.trace[-1].probability, abs=1e-4)
    assert bool(mine.verify(room.explainer.cut.head, query.grids[0], donors.grids))


def test_a_cell_tells_what_its_swaps_do(site):
    room = site.room
    view = room.settled(View())
    found = matches_of(room, view, 24)
    for match in (*found.alike, *found.raising):
        after = room.solve(view.with_(swaps=((24, match.cell),)))
        assert after.probability == pytest.approx(match.probability, abs=1e-4)
        assert after.flipped == match.flips
    assert found.raising[0].probability >= max(m.probability for m in found.alike) - 0.05
    # After a swap by hand, the next one is on top of it, and its donor is taken.
    first = (10, found.alike[0].cell)
    later = matches_of(room, view.with_(swaps=(first,)), 24)
    assert later.before == pytest.approx(room.solve(view.with_(swaps=(first,))).probability, abs=1e-4)
    assert first[1] not in {m.cell for m in (*later.alike, *later.raising)}


def test_impossible_wishes_are_refused(site):
    room = site.room
    view = room.settled(View())
    said = room.solve(view).query_class
    with pytest.raises(ClassIndexError, match="already says"):
        room.settled(view.with_(target=said))
    with pytest.raises(ClassIndexError):
        room.settled(view.with_(target=5000))
    with pytest.raises(ImageError):
        room.settled(View(image=10**6))
    with pytest.raises(ImageError, match="Drop it again"):
        room.settled(View(upload="0" * 24))


# -- the desk -------------------------------------------------------------------------------------------------------


def test_one_search_at_a_time_and_the_latest_only():
    desk, running, most, order = RequestScheduler(), [0], [0], []
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
        tasks = [asyncio.create_task(desk.do("tab", lambda: work(0)))]
        await asyncio.to_thread(begun.wait, 10)
        tasks += [asyncio.create_task(desk.do("tab", lambda k=k: work(k))) for k in range(1, 6)]
        await asyncio.sleep(0.05)
        with pytest.raises(CancelledError):
            desk.cancel.check(0)  # the running one learns that nobody waits for it
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(scenario())
    assert [isinstance(one, CancelledError) for one in found[1:5]] == [True] * 4
    assert found[5] == 5
    assert order == [0, 5]
    assert most == [1]
    desk.close()


def test_a_pile_of_requests_is_refused():
    desk = RequestScheduler(waiting=3)
    go = threading.Event()

    async def scenario() -> list[object]:
        tasks = [asyncio.create_task(desk.do("", lambda: go.wait(10))) for _ in range(8)]
        await asyncio.sleep(0.05)
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(scenario())
    assert sum(isinstance(one, BusyError) for one in found) == 5
    assert asyncio.run(desk.do("", lambda: 7)) == 7  # and afterwards it works again
    desk.close()


def long_work(desk: RequestScheduler, done: list[str], reached: threading.Event) -> None:
    """Work for ten seconds, unless nobody waits for it."""
    reached.set()
    for _ in range(1000):
        desk.cancel.check(0)
        threading.Event().wait(0.01)
    done.append("long")


def test_spare_time_is_used_and_given_up_at_once():
    desk, done = RequestScheduler(), []
    reached = threading.Event()
    long = partial(long_work, desk, done, reached)

    async def scenario() -> int:
        desk.spare([lambda: done.append("short"), long, lambda: done.append("never")])
        await asyncio.to_thread(reached.wait, 10)
        return await desk.do("tab", lambda: 7)

    assert asyncio.run(scenario()) == 7
    assert done == ["short"]
    desk.close()


def test_other_spare_work_takes_the_place_of_what_is_under_way():
    desk, done = RequestScheduler(), []
    reached, over = threading.Event(), threading.Event()
    long = partial(long_work, desk, done, reached)

    def hopeless() -> Iterator[Callable[[], None]]:
        raise PartswapError("there is no such view.")
        yield long

    desk.spare([long])
    assert reached.wait(10)
    desk.spare(hopeless())
    desk.spare([lambda: done.append("short"), over.set])
    assert over.wait(10)
    assert done == ["short"]
    desk.close()


def test_where_the_hand_is_tells_what_comes_first(site):
    room = site.room
    view = room.settled(View())
    near = list(room.nearby(view))
    for slider, field in (("lam", "lam"), ("tau", "tau"), ("n", "distractors"), ("edits", "edits"), ("beam", "beam")):
        first = list(room.nearby(view, slider))
        assert set(first) == set(near)
        moved = [getattr(one, field) != getattr(view, field) for one in first]
        assert moved == sorted(moved, reverse=True)
        assert any(moved)


def test_next_positions_are_near_and_possible(site):
    room = site.room
    view = room.settled(View())
    near = list(room.nearby(view))
    assert view not in near
    assert len(near) == len(set(near))
    assert {one.image for one in near} == {view.image}
    assert all(1 <= one.distractors <= len(room.drawn(view)) or one.distractors == view.distractors for one in near)
    assert list(room.nearby(view.with_(swaps=()))) == []


def test_an_outdated_search_ends_early(site):
    room = site.room
    view = room.settled(View(image=1))

    with pytest.raises(CancelledError), room.cancel.when(lambda: True):
        room.solve(view)
    assert len(room.solve(view)) > 0


def test_a_search_that_takes_longer_than_a_page_waits_goes_on_from_where_it_was(site):
    room = site.room
    view = room.settled(View(image=2))
    assert room.solve_within(view, -1) is None
    cf = room.solve_within(view, 60)
    assert cf is not None
    assert pairs(cf) == pairs(room.solve(view))


def test_progress_is_told_and_work_can_be_stopped():
    desk, ended, reached = RequestScheduler(), [], threading.Event()

    def work() -> None:
        try:
            for k in range(1000):
                desk.cancel.check(k // 10)
                if k == 25:
                    reached.set()
                threading.Event().wait(0.01)
        except CancelledError:
            ended.append("early")
            raise

    async def scenario() -> None:
        task = asyncio.create_task(desk.do("tab", work))
        await asyncio.to_thread(reached.wait, 10)
        now = desk.progress("tab")
        assert now.running
        assert now.edits >= 2
        assert now.seconds > 0.2
        assert not desk.progress("another").running
        desk.stop("another")
        desk.stop("tab")
        with pytest.raises(CancelledError):
            await task

    asyncio.run(scenario())
    assert ended == ["early"]
    assert not desk.progress("tab").running
    desk.close()
