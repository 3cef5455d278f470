"""What a participant sees, one step after the other; decided by the study and their slot alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from partswap.apps.study.folder import Block, Region, Study

#: What may be answered in a phase.
CHOICES = {
    "consent": ("agree",),
    "instructions": ("next",),
    "pair": ("next",),
    "before": ("A", "B", "unknown"),
    "learn": ("next",),
    "test": ("A", "B"),
    "attention": ("A", "B"),
}


@dataclass(frozen=True)
class DisplayedImage:
    """A picture on a page: `label` is what it is called there, `region` what is not blurred."""

    image: str
    label: str | None = None
    region: Region | None = None


@dataclass(frozen=True)
class StudyStep:
    """One page; `truth` is the right answer, which no page tells."""

    number: int
    phase: str
    block: int | None = None
    item: int | None = None  #: its number within the phase, from 0
    shown: tuple[DisplayedImage, ...] = ()
    truth: str | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """What may be answered."""
        return CHOICES[self.phase]


def steps_of(study: Study, slot: int) -> tuple[StudyStep, ...]:
    """Return all steps of a slot, in order; after the last one comes the page of thanks."""
    return tuple(replace(step, number=number) for number, step in enumerate(_steps(study, slot)))


def _steps(study: Study, slot: int) -> Iterator[StudyStep]:
    yield StudyStep(0, "consent")
    yield StudyStep(0, "instructions")
    blocks = study.slots[slot]
    checks = study.random_for(slot, "attention").choices(range(len(blocks)), k=study.attention)
    for number, block in enumerate(blocks):
        yield StudyStep(0, "pair", number)
        yield from _questions(study, slot, number, block, "before")
        yield from _lesson(study, slot, number, block)
        test = list(_questions(study, slot, number, block, "test"))
        rng = study.random_for(slot, number, "attention")
        for _ in range(checks.count(number)):
            test.insert(rng.randrange(1, len(test)), StudyStep(0, "attention", number, truth=rng.choice("AB")))
        yield from test


def _questions(study: Study, slot: int, number: int, block: Block, phase: str) -> Iterator[StudyStep]:
    questions = list(study.pairs[study.lessons[block.lesson].pair].questions)
    study.random_for(slot, number, phase).shuffle(questions)
    for item, question in enumerate(questions):
        truth = "B" if question.second != block.swapped else "A"
        yield StudyStep(0, phase, number, item, (DisplayedImage(question.image),), truth)


def _lesson(study: Study, slot: int, number: int, block: Block) -> Iterator[StudyStep]:
    learning = list(study.lessons[block.lesson].learning)
    study.random_for(slot, number, "learn").shuffle(learning)
    for item, pair in enumerate(learning):
        # A always stands on the left: which of the two is the query is nobody's business.
        sides = (pair.distractor, pair.query) if block.swapped else (pair.query, pair.distractor)
        shown = tuple(DisplayedImage(side.image, label, side) for side, label in zip(sides, "AB", strict=True))
        yield StudyStep(0, "learn", number, item, shown)
