"""The decomposition against an independent solution, and on a case with a known answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from partswap.errors import ShapeError
from partswap.words.decompose import decompose


def solved(weights, basis):
    """Minimise |w - alpha q|^2 over alpha >= 0 by another algorithm (bounded quasi-Newton)."""
    gram, reach = basis @ basis.T, basis @ weights

    def loss(alpha):
        return float(alpha @ gram @ alpha - 2 * alpha @ reach), 2 * (gram @ alpha - reach)

    start = np.zeros(len(basis))
    options = {"maxiter": 20_000, "ftol": 1e-15, "gtol": 1e-12}
    found = minimize(loss, start, jac=True, bounds=[(0, None)] * len(basis), method="L-BFGS-B", options=options)
    return found.x


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(2, 30))
def test_all_attributes_give_the_non_negative_least_squares_solution(seed, count, channels):
    rng = np.random.default_rng(seed)
    weights, basis = rng.normal(size=channels), rng.normal(size=(count, channels)) * rng.uniform(0.1, 10, (count, 1))
    found = decompose(weights, basis)
    best = np.linalg.norm(weights - solved(weights, basis) @ basis)
    assert (found.alpha >= 0).all()
    assert np.allclose(found.residual, weights - found.alpha @ basis)
    assert np.linalg.norm(found.residual) == pytest.approx(best, abs=1e-4 * np.linalg.norm(weights))
    assert found.explained == pytest.approx(1 - (found.residual @ found.residual) / (weights @ weights), abs=1e-6)
    assert set(found.chosen) == set(np.flatnonzero(found.alpha))


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_each_choice_is_the_one_that_leaves_least(seed, most):
    rng = np.random.default_rng(seed)
    weights, basis = rng.normal(size=9), rng.normal(size=(7, 9))
    fewer, more = decompose(weights, basis, most - 1), decompose(weights, basis, most)
    assert len(more.chosen) <= most
    assert np.linalg.norm(more.residual) <= np.linalg.norm(fewer.residual) + 1e-9
    if len(fewer.chosen) == most - 1 and len(more.chosen) == most and set(fewer.chosen) < set(more.chosen):
        for other in set(range(7)) - set(fewer.chosen):  # nothing else would have been better
            rest = weights - solved(weights, basis[[*fewer.chosen, other]]) @ basis[[*fewer.chosen, other]]
            assert np.linalg.norm(more.residual) <= np.linalg.norm(rest) + 1e-5


def test_a_constructed_case():
    red, long, striped = np.eye(5)[:3]
    weights = 3 * red + 0.5 * long - 2 * striped + np.eye(5)[4]  # against stripes, and something nobody has a word for
    found = decompose(weights, [red, long, striped])
    assert found.alpha.round(9).tolist() == [3, 0.5, 0]
    assert found.residual.round(9).tolist() == [0, 0, -2, 0, 1]
    assert found.chosen == (0, 1)
    assert decompose(weights, [red, long, striped], 1).alpha.round(9).tolist() == [3, 0, 0]
    # How long an attribute's weights are does not matter.
    assert decompose(weights, [10 * red, long, striped]).alpha.round(9).tolist() == [0.3, 0.5, 0]


def test_nothing_to_choose():
    nothing = decompose([1.0, 2.0], np.zeros((2, 2)))
    assert nothing.chosen == ()
    assert nothing.residual.tolist() == [1, 2]
    assert decompose([0.0, 0.0], np.eye(2)).explained == 0
    with pytest.raises(ShapeError, match="a basis of shape"):
        decompose([1.0, 2.0], np.eye(3))
