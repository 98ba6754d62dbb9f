"""Tail probabilities and quantiles against SciPy's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from performative.numerics.tails import beyond_f, t_quantile

degrees = st.floats(0.5, 1e6)


@given(degrees, degrees, st.floats(1e-6, 1e6))
def test_f_tails_are_those_of_scipy(between, within, ratio):
    expected = special.fdtrc(between, within, ratio)
    assert beyond_f(between, within, ratio) == pytest.approx(expected, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("between", [1.0, 3.0, 40.0])
@pytest.mark.parametrize("within", [1.0, 30.0, 900.0])
def test_small_f_tails_keep_their_digits(between, within):
    ratios = np.geomspace(1.0, 30.0, 20)
    expected = special.fdtrc(between, within, ratios)
    found = [beyond_f(between, within, ratio) for ratio in ratios]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_f_tails_at_the_ends():
    assert beyond_f(2.0, 5.0, 0.0) == 1.0
    assert beyond_f(2.0, 5.0, math.inf) == 0.0
    assert math.isnan(beyond_f(2.0, 5.0, math.nan))


@given(st.floats(1.0, 1e7))
def test_t_quantiles_are_those_of_scipy(freedom):
    assert t_quantile(freedom) == pytest.approx(special.stdtrit(freedom, 0.975), rel=1e-8)
