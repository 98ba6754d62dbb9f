"""Location families: what the user's functions are given, and which shifts and effects are refused."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.tree_util import Partial

import performative as pf
from performative.numerics.precision import precise


def updated_quartic(theta, z):
    return jnp.sum((theta.at[0].multiply(2.0) - z.at[1].add(1.0)) ** 4)


def looped(theta, z):
    return lax.fori_loop(0, 2, lambda i, total: total + 0.5 * (theta[i] - z[i]) ** 2, 0.0)


def by_label(theta, z):
    return 0.5 * jnp.sum((theta.reshape(2, 1)[(z[1] > 0).astype(int)] - z[0]) ** 2)


def weighted(weights, theta, z):
    return 0.5 * jnp.sum(weights.at[0].set(2.0) * (theta.at[0].multiply(2.0) - z.at[1].add(1.0)) ** 2)


def updated_shift(effect, theta):
    return effect.at[0].multiply(2.0) @ theta.at[0].multiply(0.5)


def updated_constraint(bound, theta):
    return theta.at[0].multiply(2.0)[:1] - bound.at[0].add(1.0)


EVERYWHERE = (Partial(weighted, np.ones(2)), updated_shift, Partial(updated_constraint, np.ones(1)))
FUNCTIONS = {
    "loss of numbers, shift and constraint": EVERYWHERE,
    "quartic": (updated_quartic, None, None),
    "loop": (looped, None, None),
    "class label": (by_label, None, None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.slow
def test_functions_are_given_the_arrays_of_jax(name):
    loss, shift, rule = FUNCTIONS[name]
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], [2.0, 2.0]), rule)
    samples = np.random.default_rng(5).normal(1.0, 1.0, size=(20, 2))
    environment = pf.LocationFamily(pf.Empirical(samples), 0.3 * np.eye(2), shift)
    theta = np.array([0.5, 1.0])
    with precise():
        losses = jax.vmap(problem.loss, in_axes=(None, 0))(jnp.asarray(theta), jnp.asarray(samples + 0.3 * theta))
    assert pf.performative_risk(problem, environment, theta) == pytest.approx(np.mean(np.asarray(losses)), rel=1e-12)
    if name == "class label":  # it jumps
        with pytest.raises(pf.SolverFailed, match="smooth the loss"):
            pf.performative_optimum(problem, environment)
    else:
        assert pf.performative_optimum(problem, environment).kkt_residual < 1e-6
    gaussian = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [1.0, 1.0]), 0.3 * np.eye(2), shift)
    assert np.isfinite(pf.performative_risk(problem, gaussian, theta))


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # convexity is not proved
def test_functions_are_given_the_arrays_of_jax_in_simulations():
    loss, shift, rule = EVERYWHERE
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], [2.0, 2.0]), rule)
    environment = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [1.0, 1.0]), 0.3 * np.eye(2), shift)
    method = pf.pd_ps(problem, warmup=3, shift=shift, effect=np.zeros((2, 2)))
    data = pf.simulate({"pd_ps": method}, environment, rounds=2, realizations=1)
    assert np.all(np.isfinite(data.regret))


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


SQUARE = pf.Box([-1.0, -1.0], [1.0, 1.0])

PROBLEM = pf.Problem(loss, SQUARE)

BASE = pf.Gaussian([0.0, 0.0], [1.0, 1.0])


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (lambda effect, theta: effect @ theta + 1.0, "`shift` must be linear in the decision"),
        (lambda effect, theta: effect @ theta**2, "`shift` must be linear in the decision"),
        (lambda effect, theta: (effect + 1.0) @ theta, "`shift` must be linear in the effect"),
        (lambda effect, theta: effect**2 @ theta, "`shift` must be linear in the effect"),
        (lambda effect, theta: jnp.abs(effect) @ theta, "`shift` must be linear in the effect"),
        (lambda effect, theta: jnp.ones(3), "`shift` must return the shift of a sample (2,), but returned (3,)"),
        (
            lambda effect, theta: effect @ jnp.ones(5),
            "`shift` must take the effect (2, 2) and a decision (2,), but failed",
        ),
    ],
    ids=["affine", "square", "affine effect", "squared effect", "absolute effect", "length", "failing"],
)
def test_a_shift_that_is_not_bilinear_is_refused(shift, message):
    world = pf.LocationFamily(BASE, [[-0.3, 0.2], [0.1, 0.4]], shift)
    refused(message, lambda: pf.performative_risk(PROBLEM, world, [0.0, 0.0]))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("use", ["risk", "optimum", "simulate"])
def test_an_effect_for_decisions_of_another_length_is_refused(use, columns):
    # One column would broadcast over all of them.
    world = pf.LocationFamily(BASE, 0.1 * np.ones((2, columns)))
    calls = {
        "risk": lambda: pf.performative_risk(PROBLEM, world, [0.5, 0.5]),
        "optimum": lambda: pf.performative_optimum(PROBLEM, world),
        "simulate": lambda: pf.simulate({"apda": pf.apda(PROBLEM)}, world, rounds=2),
    }
    with pytest.raises(ValueError, match=r"dimension|effect"):
        calls[use]()


def test_one_decision_and_an_effect_of_three_columns_are_refused():
    single = pf.Problem(loss, pf.Box([-1.0], [1.0]))
    world = pf.LocationFamily(BASE, 0.1 * np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"dimension|effect"):
        pf.performative_risk(single, world, [0.5])
