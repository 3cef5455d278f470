"""Explanations to draw, found once for all tests of figures."""

from dataclasses import replace

import pytest

from partswap import Edit, Explainer, Step, aviary


@pytest.fixture(scope="session")
def explainer():
    return Explainer("aviary:vgg", auxiliary="aviary")


@pytest.fixture(scope="session")
def explanations(explainer):
    """Return one of two methods each, of one query with six distractors."""
    query, distractors = aviary.draw(0, 7).image, [aviary.draw(1, seed).image for seed in range(6)]
    return [explainer.explain(query, distractors, 1, method=method, pixel=True) for method in ("partswap", "goyal")]


@pytest.fixture(scope="session")
def adjacent(explanations):
    """Return an explanation of four edits in a square of cells, with two of its six distractors."""
    cf = explanations[0]
    cells = ((16, 4, 24), (17, 4, 25), (23, 1, 31), (24, 4, 0))
    edits = tuple(Edit(query, 49 * image + cell, image) for query, image, cell in cells)
    trace = tuple(Step(p, int(p > 0.5), 0.0, 1 - p) for p in (0.1, 0.3, 0.4, 0.8))
    return replace(cf, edits=edits, trace=trace, flipped=True)


@pytest.fixture(scope="session")
def long(explanations):
    """Return an explanation of 33 edits with all six distractors, which flips with the 30th."""
    cf = explanations[0]
    edits = tuple(Edit(k, 49 * (k % 6) + (5 * k) % 49, k % 6) for k in range(33))
    trace = tuple(Step(0.02 * k, int(k >= 29), 0.0, 1 - 0.02 * k) for k in range(33))
    return replace(cf, edits=edits, trace=trace, flipped=True, pixel=None)


@pytest.fixture(scope="session")
def stuck(explanations):
    """Return an explanation that does not flip."""
    cf = explanations[1]
    return replace(cf, flipped=False, trace=tuple(replace(step, predicted=0) for step in cf.trace))


@pytest.fixture(scope="session")
def options(explainer, explanations, stuck):
    """Return the options that every kind of figure needs, for the first explanation."""
    cf = explanations[0]
    return {
        "methods": {"others": explanations[1:]},
        "failures": {"others": [stuck]},
        "heat": {"maps": explainer.heat(cf)},
        "clusters": {"labels": explainer.clusters(cf, 5)},
        "edits": {"parts": ["crown", *[None] * (len(cf) - 1)]},
    }
