"""Exploration that fades: less noise where moving is expensive, and all of it elsewhere."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import small
from scanning import scan

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def test_exploration_leaves_a_binding_constraint_alone():
    """With λ* > 0 the noise across the constraint is of order σ², along it of order σ."""
    problem, environment = small()
    method = pf.safe_apda(problem)
    state = scan(method, environment, 300, runs=200).state
    assert float(state.multipliers[0]) > 0.1
    with precise():
        noise = jax.random.normal(new_key(1), (500, 2))
        theta, level = state.decision, method.noise_level(state)
        cheap = functools.partial(
            method.exploration.cheap_noise, problem, theta, state.aim - theta, state.multipliers, state.scales.curvature
        )
        noise = np.asarray(jax.vmap(functools.partial(cheap, level))(noise))
    across, along = noise @ [1, 1] / np.sqrt(2), noise @ [1, -1] / np.sqrt(2)
    assert across.std() < 0.2 * along.std()
    assert along.std() > 0.8


def leveled_loss(level, theta, z):
    return -jnp.sum(theta * z) + level * jnp.sum(theta)


@pytest.mark.slow
def test_a_constant_on_the_simplex_does_not_stop_exploration():
    """100·Σθ is the same everywhere on a simplex; its gradient is across the set and must not damp noise along it."""
    mean, effect, regrets = np.array([4.0, 5.0]), np.array([[-1.5, 0.3], [0.2, -1.0]]), []
    environment = pf.LocationFamily(pf.Gaussian(mean, 0.25 * np.eye(2)), effect)

    def risk(theta):  # without the constant
        return -np.sum(theta * (mean + theta @ effect.T), axis=-1)

    least = np.min(risk(np.stack([np.linspace(0, 4, 40_001), np.linspace(4, 0, 40_001)], axis=1)))
    for level in (0.0, 100.0):
        problem = pf.Problem(jax.tree_util.Partial(leveled_loss, level), pf.Simplex(2, total=4.0))
        runs = scan(pf.safe_apda(problem), environment, 5_000, runs=5)
        regrets.append(np.mean(risk(runs.every)) - least)
    assert regrets[1] < 3 * regrets[0] + 1e-3
