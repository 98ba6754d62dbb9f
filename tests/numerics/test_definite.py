"""Semidefinite or not, in any units."""

import numpy as np
import pytest

from performative.numerics.definite import is_indefinite, is_semidefinite

FLAT = np.random.default_rng(0).normal(size=(3, 6))
UNITS = np.array([1e6, 1.0, 1e-3, 1e-7, 1e3, 1e-5])
SADDLE = np.eye(6) + 1e-3 * np.outer(np.eye(6)[0], np.eye(6)[5]) * 1.1e3


@pytest.mark.parametrize("units", [np.ones(6), UNITS])
def test_units_decide_nothing(units):
    """A Gram matrix of rank 3 has three eigenvalues that are 0 up to rounding, and a saddle stays a saddle."""
    scale = np.outer(units, units)
    assert is_semidefinite(scale * (FLAT.T @ FLAT))
    assert not is_indefinite(scale * (FLAT.T @ FLAT))
    assert not is_semidefinite(scale * (SADDLE + SADDLE.T - np.eye(6)))


def test_a_small_negative_number_on_the_diagonal_decides():
    many = np.stack(
        [np.diag([1e6, -1e-4]), np.diag([1e6, 0.0]), np.array([[1.0, 1e-6], [1e-6, 0.0]]), np.zeros((2, 2))]
    )
    np.testing.assert_array_equal(is_semidefinite(many), [False, True, False, True])
    assert is_indefinite(many[0])
    assert not is_semidefinite(np.full((2, 2), np.nan))


def test_between_the_two_lies_rounding():
    rounded = np.diag([1.0, -1e-17])
    assert not is_semidefinite(rounded)
    assert not is_indefinite(rounded)
    assert is_indefinite(np.diag([0.0, -1e-17]))
    assert not is_indefinite(np.diag([0.0, -1e-17]), 1.0)
