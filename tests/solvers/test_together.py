"""Searches from many starts together: against closed forms, and against each start alone."""

import numpy as np
import pytest

from performative.solvers.together import minimized_together

STARTS = np.random.default_rng(0).uniform(size=(12, 3))
TARGET = np.array([0.9, 0.2, 0.7])


def nearest(u):
    return 0.5 * np.sum((u - TARGET) ** 2, axis=1), u - TARGET


def curved(u):
    """Rosenbrock's valley, with its least value 0 at 1."""
    x, y = u[:, 0], u[:, 1]
    slope = np.stack([2 * (x - 1) - 400 * x * (y - x**2), 200 * (y - x**2)], axis=1)
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2, slope


def free(u):
    return np.zeros((len(u), 0)), np.zeros((len(u), 0, u.shape[1]))


def capped(u):
    return np.sum(u, axis=1, keepdims=True) - 1.5, np.ones((len(u), 1, u.shape[1]))


def round_(u):
    return np.sum(u**2, axis=1, keepdims=True) - 0.5, 2 * u[:, None, :]


def never(u):
    return np.ones((len(u), 1)), np.zeros((len(u), 1, u.shape[1]))


def test_the_nearest_point_of_a_half_space_is_found_from_everywhere():
    found = minimized_together(nearest, capped, STARTS)
    np.testing.assert_allclose(found, np.tile(TARGET - 0.1, (12, 1)), atol=1e-6)


def test_a_linear_function_is_least_where_a_ball_ends():
    def falling(u):
        return -np.sum(u, axis=1), np.full_like(u, -1.0)

    found = minimized_together(falling, round_, STARTS[:, :2])
    np.testing.assert_allclose(found, 0.5, atol=1e-5)


def test_a_curved_valley_is_followed_to_its_end():
    found = minimized_together(curved, free, STARTS[:, :2])
    assert np.all(curved(found)[0] < 1e-6)
    below = minimized_together(curved, round_, STARTS[:, :2])
    on = np.linspace(0.0, np.pi / 2, 200_001)
    ball = np.sqrt(0.5) * np.stack([np.cos(on), np.sin(on)], axis=1)
    assert np.all(round_(below)[0] <= 1e-6)
    np.testing.assert_allclose(curved(below)[0], np.min(curved(ball)[0]), rtol=1e-4)


def test_points_stay_in_the_cube_where_no_decision_is_feasible():
    found = minimized_together(nearest, never, STARTS)
    np.testing.assert_array_equal(found, STARTS)


@pytest.mark.parametrize("sides", [free, capped, round_])
def test_starts_do_not_disturb_each_other(sides):
    together = minimized_together(nearest, sides, STARTS)
    alone = [minimized_together(nearest, sides, start[None])[0] for start in STARTS]
    np.testing.assert_allclose(together, alone, atol=1e-9)


def test_numbers_that_are_not_finite_are_stepped_back_from():
    def steep(u):  # nan beyond ½
        with np.errstate(invalid="ignore"):
            root = np.sqrt(0.5 - u)
        return -np.sum(root * 0.0 + u, axis=1), np.full_like(u, -1.0) + root * 0.0

    found = minimized_together(steep, free, np.full((1, 1), 0.1))
    assert 0.1 < found[0, 0] <= 0.5
