"""A report of made-up explanations, for tests of its page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from partswap.apps.report import ReportData
from partswap.apps.report.model import ModelMistakes, PictureNumbers, ReportedMethod
from partswap.data.on_grid import CellFacts
from partswap.grid import GridShape
from partswap.metrics import Evidence, score_all
from partswap.results.counterfactual import Counterfactual, Edit, PixelCheck, Step
from partswap.results.words import Words
from partswap.runs.confusion import Confusion, Mistake

GRID = GridShape(4, 4)
CLASSES = ("finch", "tern", "gull", "jay")
PARTS = ("beak", "tail", "wing")


def with_extras(cf: Counterfactual) -> Counterfactual:
    """Return an explanation with words and a pixel check."""
    words = Words("Its tail would have to be <b>red</b>.", None, ("tail",), ("tail",), (), (), 0.5, 0.1)
    return replace(cf, words=words, pixel=PixelCheck(before=0.05, after=0.61, predicted=1, flipped=True))


def explanation(
    number: int,
    *,
    edits: int,
    flipped: bool = True,
    classes: tuple[str, ...] = CLASSES,
    pair: tuple[int, int] | None = None,
) -> Counterfactual:
    """Return an explanation of class `number` (modulo their number) towards the next one, or of another pair."""
    own, target = pair or (number % len(classes), (number + 1) % len(classes))
    chosen = tuple(Edit((number + k) % 16, 16 * (k % 2) + (number + 2 * k) % 16, k % 2) for k in range(edits))
    levels = np.linspace(0.05, 0.85 if flipped else 0.3, edits + 1).tolist()
    trace = [Step(p, own, -1.0, 1 - p) for p in levels[1:]]
    if flipped:
        trace[-1] = Step(levels[-1], target, -1.0, 1 - levels[-1])
    names = {"class_names": {str(k): name for k, name in enumerate(classes)}}
    return Counterfactual(
        own,
        target,
        GRID,
        2,
        chosen,
        Step(levels[0], own, original_class_probability=0.9),
        tuple(trace),
        flipped,
        method="goyal",
        source=names,
    )


def make_report(
    queries: int = 30,
    *,
    methods: tuple[str, ...] = ("goyal", "partswap"),
    classes: tuple[str, ...] = CLASSES,
    pairs: Sequence[tuple[int, int]] = (),
    mistakes: Collection[int] = (),
    background: bool = False,
    first: Counterfactual | None = None,
) -> ReportData:
    """Return a report: the first method needs an edit more than the second, every seventh query is not reached.

    The first explanation has words and a pixel check. `pairs` are the class pairs in turns, `mistakes` the queries that
    the model gets wrong; with `background` the upper half of every image shows none of the object.
    `first` takes the place of the first explanation.
    """
    report = ReportData("Made up", "Nothing of this was computed.")
    report.mistakes.append(
        ModelMistakes("", Confusion(classes, (30,) * len(classes), (Mistake(2, 0, 21), Mistake(1, 0, 2))))
    )
    shown = tuple(frozenset({PARTS[cell % 3]}) for cell in range(GRID.cells))
    seen = tuple(not background or cell >= GRID.cells // 2 for cell in range(GRID.cells))
    shown = tuple(parts if on else frozenset() for parts, on in zip(shown, seen, strict=True))
    facts = CellFacts(shown, shown, seen if background else None)
    evidence = Evidence(facts, [facts, facts], frozenset({"tail"}))

    def pair_of(number: int) -> tuple[int, int] | None:
        return pairs[number % len(pairs)] if pairs else None

    noise = np.random.default_rng(0)
    for place, method in enumerate(methods):
        found = []
        for number in range(queries):
            edits = 1 + number % 3 + (len(methods) - 1 - place)
            found.append(
                explanation(number, edits=edits, flipped=number % 7 != 6, classes=classes, pair=pair_of(number))
            )
        scores = score_all([(cf, evidence) for cf in found], resamples=50)
        report.sources.append(
            ReportedMethod({"goyal": "Goyal et al."}.get(method, method), "", method, GRID, scores, model=0)
        )
        for number, cf in enumerate(found):
            pictures = []
            for role in range(3):
                pixels = noise.integers(0, 255, (8, 8, 3), np.uint8)
                image = Image.fromarray(pixels).resize((64, 64), Image.Resampling.NEAREST)
                pictures.append(report.thumbnails.add((number, role), image))
            mistake = number in mistakes
            truth = classes[cf.target] if mistake else None
            case, shown = (
                report.case(number, f"photos/{number:04d}.jpg", truth),
                PictureNumbers(pictures[0], pictures[1:]),
            )
            report.add(place, case, (first or with_extras(cf)) if number == 0 else cf, evidence, shown, mistake=mistake)
    return report
