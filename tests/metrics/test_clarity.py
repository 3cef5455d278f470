"""The rule that chooses examples prefers what a reader understands."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from partswap.data.on_grid import CellFacts
from partswap.grid import GridShape
from partswap.metrics import Evidence
from partswap.metrics.clarity import clarity, clearest_first, turns_into, weaknesses
from partswap.results.counterfactual import Counterfactual, Edit, PixelCheck, Step

GRID = GridShape(2, 2)
HEAD, TAIL, NOTHING = frozenset({"head"}), frozenset({"tail"}), frozenset[str]()
#: Cell 0 shows the head, cell 1 the tail, the others background.
FACTS = CellFacts((HEAD, TAIL, NOTHING, NOTHING), None, (True, True, False, False))
EVIDENCE = Evidence(FACTS, [FACTS])


def explanation(
    *swaps: tuple[int, int], probabilities: tuple[float, ...] = (0.9,), holds: bool = True
) -> Counterfactual:
    edits = tuple(Edit(query_cell, distractor_cell, 0) for query_cell, distractor_cell in swaps)
    trace = tuple(Step(p, 1) for p in probabilities)
    pixel = PixelCheck(0.1, 0.8, 1, True) if holds else PixelCheck(0.1, 0.2, 0, False)
    return Counterfactual(0, 1, GRID, 1, edits, Step(0.1, 0), trace, True, pixel=pixel)


CLEAR = explanation((0, 0))


@pytest.mark.parametrize(
    "worse",
    [
        explanation((0, 1)),
        explanation((2, 0)),
        explanation((2, 3)),
        explanation((0, 0), holds=False),
        explanation((0, 0), probabilities=(0.41,)),
        explanation((0, 0), (1, 1), probabilities=(0.05, 0.9)),
        explanation((0, 0), probabilities=(0.8,)),
        replace(CLEAR, flipped=False),
        replace(CLEAR, edits=(), trace=()),
        replace(CLEAR, edits=CLEAR.edits * 5, trace=tuple(Step(p, 1) for p in (0.2, 0.4, 0.6, 0.8, 0.9))),
    ],
    ids=[
        "another part", "background for a head", "background", "fails in pixels", "a toss-up", "falls in between",
        "gains less", "not flipped", "no edit", "many edits",
    ],
)  # fmt: skip
def test_the_clear_one_comes_first(worse: Counterfactual) -> None:
    assert clarity(CLEAR, EVIDENCE) > clarity(worse, EVIDENCE)
    assert clearest_first([worse, CLEAR], [EVIDENCE, EVIDENCE]) == [1, 0]


def test_without_annotations_order_is_kept_between_equals() -> None:
    assert clearest_first([CLEAR, CLEAR]) == [0, 1]
    assert clearest_first([explanation((0, 0), holds=False), CLEAR]) == [1, 0]


MANY = replace(CLEAR, edits=CLEAR.edits * 5, trace=tuple(Step(p, 1) for p in (0.2, 0.4, 0.6, 0.8, 0.9)))


@pytest.mark.parametrize(
    ("weak", "reason"),
    [
        (MANY, "5 swaps are many"),
        (explanation((0, 2)), "Swap 1 has background"),
        (explanation((0, 3), (2, 0), probabilities=(0.5, 0.7)), "2 of 2 swaps have background"),
        (explanation((0, 0), probabilities=(0.41,)), "low probability: .* ends at 41 %"),
        (replace(explanation((0, 0), probabilities=(0.09,)), flipped=False), "do not reach .* at 9 %"),
    ],
    ids=["many edits", "background", "background twice", "low probability", "not reached"],
)
def test_a_weak_explanation_says_why(weak: Counterfactual, reason: str) -> None:
    assert len(weaknesses(weak, EVIDENCE)) == 1
    assert re.search(reason, weaknesses(weak, EVIDENCE)[0])
    assert weaknesses(CLEAR, EVIDENCE) == []


def test_a_class_turns_into_another_only_if_that_is_likely_in_the_end() -> None:
    assert turns_into(CLEAR)
    assert not turns_into(explanation((0, 0), probabilities=(0.09,)))
    assert not turns_into(replace(CLEAR, flipped=False))
