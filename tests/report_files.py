"""A report of made-up explanations, for tests of its page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image

from partswap.apps.report import Report
from partswap.apps.report.model import Shown, Source
from partswap.counterfactual import Counterfactual, Edit, PixelCheck, Step
from partswap.data.on_grid import CellFacts
from partswap.grid import GridShape
from partswap.metrics import Evidence, score_all
from partswap.words import Words

GRID = GridShape(4, 4)
CLASSES = ("finch", "tern", "gull", "jay")
PARTS = ("beak", "tail", "wing")


def with_extras(cf: Counterfactual) -> Counterfactual:
    """Return an explanation with words and a pixel check."""
    words = Words("Its tail would have to be <b>red</b>.", None, ("tail",), ("tail",), (), (), 0.5, 0.1)
    return replace(cf, words=words, pixel=PixelCheck(before=0.05, after=0.61, predicted=1, flipped=True))


def explanation(number: int, *, edits: int, flipped: bool = True, classes: tuple[str, ...] = CLASSES) -> Counterfactual:
    """Return an explanation of class `number` (modulo their number) towards the next one."""
    own, target = number % len(classes), (number + 1) % len(classes)
    chosen = tuple(Edit((number + k) % 16, 16 * (k % 2) + (number + 2 * k) % 16, k % 2) for k in range(edits))
    levels = np.linspace(0.05, 0.85 if flipped else 0.3, edits + 1).tolist()
    trace = [Step(p, own, -1.0, 1 - p) for p in levels[1:]]
    if flipped:
        trace[-1] = Step(levels[-1], target, -1.0, 1 - levels[-1])
    names = {"class_names": {str(k): name for k, name in enumerate(classes)}}
    return Counterfactual(
        own, target, GRID, 2, chosen, Step(levels[0], own, own=0.9), tuple(trace), flipped, method="goyal", source=names
    )


def make_report(
    queries: int = 30, *, methods: tuple[str, ...] = ("goyal", "partswap"), classes: tuple[str, ...] = CLASSES
) -> Report:
    """Return a report: the first method needs an edit more than the second, every seventh query is not reached.

    The first explanation has words and a pixel check.
    """
    report = Report("Made up", "Nothing of this was computed.")
    shown = tuple(frozenset({PARTS[cell % 3]}) for cell in range(GRID.cells))
    facts = CellFacts(shown, shown, None)
    evidence = Evidence(facts, [facts, facts], frozenset({"tail"}))
    noise = np.random.default_rng(0)
    for place, method in enumerate(methods):
        found = []
        for number in range(queries):
            edits = 1 + number % 3 + (len(methods) - 1 - place)
            found.append(explanation(number, edits=edits, flipped=number % 7 != 6, classes=classes))
        scores = score_all([(cf, evidence) for cf in found], resamples=50)
        report.sources.append(Source({"goyal": "Goyal et al."}.get(method, method), "", method, GRID, scores))
        for number, cf in enumerate(found):
            pictures = []
            for role in range(3):
                pixels = noise.integers(0, 255, (8, 8, 3), np.uint8)
                image = Image.fromarray(pixels).resize((64, 64), Image.Resampling.NEAREST)
                pictures.append(report.thumbnails.add((number, role), image))
            case, shown = report.case(number, f"photos/{number:04d}.jpg"), Shown(pictures[0], pictures[1:])
            report.add(place, case, with_extras(cf) if number == 0 else cf, evidence, shown)
    return report
