"""Worlds that do not fit a problem are refused."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


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
