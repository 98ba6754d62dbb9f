"""Upper bounds over Θ are at least what a search finds, and equal to what is known."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pf
from performative.numerics.precision import precise
from performative.theory.enclosures import largest_affine_norm, largest_quadratic, largest_quadratic_norm
from performative.theory.suprema import largest_value

few = settings(max_examples=30, deadline=None)
seeds = st.integers(0, 2**32 - 1)


@few
@given(seeds)
def test_the_largest_quadratic_on_a_ball_is_its_maximum(seed):
    """In the plane, against the circle in fine steps and the stationary point inside."""
    random = np.random.default_rng(seed)
    slope, half = random.normal(size=2) * random.integers(0, 2), random.normal(size=(2, 2))
    curvature, reach = half + half.T, random.uniform(0.1, 3.0)
    angle = np.linspace(0, 2 * np.pi, 20_001)
    points = reach * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inside = -np.linalg.solve(curvature, slope)
    points = np.vstack([points, np.zeros(2), inside if np.linalg.norm(inside) <= reach else np.zeros(2)])
    values = points @ slope + 0.5 * np.sum(points @ curvature * points, axis=1)
    bound = largest_quadratic(slope, curvature, reach)
    assert bound >= np.max(values) * (1 - 1e-12)
    assert bound == pytest.approx(np.max(values), rel=1e-6, abs=1e-9)


SETS = (pf.Ball(2.0, center=[0.5, -1.0, 0.2]), pf.Box([-1.0, 0.0, 0.5], [0.5, 2.0, 0.7]), pf.Simplex(total=2.0))


@pytest.mark.parametrize("decisions", SETS)
@pytest.mark.parametrize("seed", [0])
def test_norms_of_affine_maps_and_ranges_of_quadratics_are_not_exceeded(decisions, seed):
    random = np.random.default_rng(seed)
    constant, linear = random.normal(size=(2, 4)), random.normal(size=(2, 4, 3))
    curvature = random.normal(size=(2, 3, 3))
    curvature[0] = curvature[0] @ curvature[0].T
    points = random.normal(size=(300, 3)) * 3
    with precise():
        points = np.stack([np.asarray(decisions.project(point)) for point in points])
        matrix = lambda theta: constant + linear @ theta  # noqa: E731
        vector = lambda theta: matrix(theta)[0]  # noqa: E731
        values = lambda theta: vector(theta)[:2] + 0.5 * jnp.einsum("iab,a,b->i", curvature, theta, theta)  # noqa: E731
        of_matrix, of_vector = (largest_affine_norm(each, decisions, 3)[0] for each in (matrix, vector))
        of_values = largest_quadratic_norm(values, decisions, 3)[0]
    for theta in points:
        at = constant + linear @ theta
        assert np.linalg.norm(at, 2) <= of_matrix * (1 + 1e-12)
        assert np.linalg.norm(at[0]) <= of_vector * (1 + 1e-12)
        g = at[0][:2] + 0.5 * np.einsum("iab,a,b->i", curvature, theta, theta)
        assert np.linalg.norm(g) <= of_values * (1 + 1e-12)


def test_ascent_may_stop_below_the_supremum():
    """‖θ‖ on [0, 0.3]¹⁰ is largest at the upper corner, which no ascent from 32 decisions reaches: only the corners prove it."""
    box = pf.Box(np.zeros(10), np.full(10, 0.3))
    with precise():
        found, _ = largest_value(jnp.linalg.norm, box, box.spread(10, 32))
        bound, why = largest_affine_norm(lambda theta: theta, box, 10)
    assert bound == pytest.approx(0.3 * np.sqrt(10), rel=1e-12)
    assert found < 0.95 * bound
    assert "1024 corners" in why
