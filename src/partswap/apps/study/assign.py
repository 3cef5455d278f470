"""Who takes which lessons: balanced, decided by chance, and nobody sees one pair of classes twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from partswap.apps.study.folder import Block, Lesson
from partswap.errors import SettingError


def assign(
    lessons: Sequence[Lesson], participants: int, blocks: int, rng: random.Random
) -> tuple[tuple[Block, ...], ...]:
    """Return what each participant takes.

    Every next lesson is of a pair of classes that the participant has not seen, and of those one that was given least
    often so far; of these, one whose condition (method and setup) the participant has had least. Which class is called
    A is balanced over the uses of a lesson and over a participant's blocks.
    """
    if participants < 1 or blocks < 1:
        raise SettingError(f"{participants} participants with {blocks} pairs each.", "Use 1 or more of both.")
    check_blocks(blocks, len({lesson.pair for lesson in lessons}))
    given: Counter[int] = Counter()
    swapped: Counter[int] = Counter()
    slots = []
    for _ in range(participants):
        seen: set[int] = set()
        had: Counter[tuple[str, str]] = Counter()
        mine: list[Block] = []
        for _ in range(blocks):
            order = [k for k in range(len(lessons)) if lessons[k].pair not in seen]
            rng.shuffle(order)
            best = min(order, key=lambda k: (given[k], had[lessons[k].method, lessons[k].setup]))
            lesson = lessons[best]
            flip = _flip(swapped[best], given[best] - swapped[best], sum(b.swapped for b in mine), len(mine), rng)
            seen.add(lesson.pair)
            had[lesson.method, lesson.setup] += 1
            given[best] += 1
            swapped[best] += flip
            mine.append(Block(lesson=best, swapped=flip))
        rng.shuffle(mine)
        slots.append(tuple(mine))
    return tuple(slots)


def check_blocks(blocks: int, pairs: int) -> None:
    """Raise an error if a participant cannot see so many pairs of classes."""
    if blocks > pairs:
        raise SettingError(
            f"a participant cannot see {blocks} pairs of classes: there are {pairs}.",
            f"Use --blocks {pairs} or fewer, or runs with more classes.",
        )


def _flip(swapped: int, straight: int, mine: int, blocks: int, rng: random.Random) -> bool:
    """Tell whether names are swapped: first so that a lesson is balanced, then so that a participant's blocks are."""
    for left, right in ((swapped, straight), (mine, blocks - mine)):
        if left != right:
            return left < right
    return rng.random() < 0.5
