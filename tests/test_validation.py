"""Bad arguments are refused with the rule and the value."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import constraints, steps

NAN, INF = float("nan"), float("inf")


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


SQUARE = pf.Box([-1.0, -1.0], [1.0, 1.0])


PROBLEM = pf.Problem(loss, SQUARE)


BASE = pf.Gaussian([0.0, 0.0], [1.0, 1.0])


WORLD = pf.LocationFamily(BASE, 0.1 * np.eye(2))


def problem(rules=None, decisions=SQUARE, dimension=None):
    return pf.Problem(loss, decisions, rules, dimension)


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


# Sets, constraints, distributions, steps: (call, what the message must say).
NUMBERS = {
    "box lower nan": (
        lambda: pf.Box([0.0, NAN], [1.0, 1.0]),
        "`lower` must hold numbers or -inf, but got nan at index [1]",
    ),
    "box upper -inf": (lambda: pf.Box(0.0, -INF), "`upper` must hold numbers or inf, but got -inf"),
    "box lower inf": (lambda: pf.Box(INF, INF), "`lower` must hold numbers or -inf, but got inf"),
    "box reversed": (
        lambda: pf.Box([0.0, 2.0], [1.0, 1.0]),
        "`lower <= upper` must hold, but got (lower=2.0, upper=1.0) at index 1",
    ),
    "scalar box reversed": (lambda: pf.Box(1.0, 0.0), "`lower <= upper` must hold, but got (lower=1.0, upper=0.0)"),
    "box shapes": (
        lambda: pf.Box([0.0, 0.0], [1.0, 1.0, 1.0]),
        "`lower` and `upper` must have the same shape, but got (2,) and (3,)",
    ),
    "box matrix": (lambda: pf.Box(np.zeros((2, 2)), 1.0), "`lower` must have 0 or 1 axes, but got shape (2, 2)"),
    "box words": (lambda: pf.Box("low", 1.0), "`lower` must be numbers, but got 'low'"),
    "box without entries": (lambda: pf.Box([], []), "`lower`"),
    "ball negative": (lambda: pf.Ball(-1.0), "`radius > 0` must hold, but got radius=-1.0"),
    "ball zero": (lambda: pf.Ball(0.0), "`radius > 0` must hold, but got radius=0.0"),
    "ball nan": (lambda: pf.Ball(NAN), "`radius` must be finite, but got nan"),
    "ball center nan": (lambda: pf.Ball(1.0, [0.0, NAN]), "`center` must be finite, but got nan at index [1]"),
    "ball center matrix": (lambda: pf.Ball(1.0, np.eye(2)), "`center` must have 0 or 1 axes, but got shape (2, 2)"),
    "simplex negative": (lambda: pf.Simplex(total=-2.0), "`total > 0` must hold, but got total=-2.0"),
    "simplex total unnamed": (
        lambda: pf.Simplex(2.0),
        "`dimension` of a simplex must be a whole number, but got 2.0; give a total by name: Simplex(total=2.0)",
    ),
    "simplex dimension": (lambda: pf.Simplex(0), "`dimension` must be a whole number >= 1, but got dimension=0"),
    "budget nan": (lambda: pf.Budget(NAN), "`total` must be finite, but got nan"),
    "half-space zero": (lambda: pf.HalfSpace([0.0, 0.0], 1.0), "`normal` must not be zero, but got [0. 0.]"),
    "half-space offset": (lambda: pf.HalfSpace([1.0], INF), "`offset` must be finite, but got inf"),
    "half-space matrix": (lambda: pf.HalfSpace(np.eye(2), 1.0), "`normal` must have 0 or 1 axes, but got shape (2, 2)"),
    "reals fraction": (lambda: pf.Reals(1.5), "`dimension` must be a whole number >= 1, but got dimension=1.5"),
    "product of none": (lambda: pf.Product([]), "`parts` must hold at least one set, but got none"),
    "product sizes": (lambda: pf.Product([pf.Ball(1.0)]), "`sizes` must give a length for each of the 1 sets"),
    "product size count": (
        lambda: pf.Product([pf.Ball(1.0), pf.Ball(2.0)], [2]),
        "`sizes` must give a length for each of the 2 sets, but got [2]",
    ),
    "product size mismatch": (lambda: pf.Product([SQUARE], [3]), "has dimension 2, but 3 is needed"),
    "contains nan": (lambda: SQUARE.contains([NAN, 0.0]), "`point` must be finite, but got nan at index [0]"),
    "contains length": (
        lambda: SQUARE.contains([0.0, 0.0, 0.0]),
        "`point` must hold 2 numbers like the set, but got 3",
    ),
    "constraints length": (
        lambda: problem([constraints.Linear([0.0, 1.0], 5.0)]).g([0.0, 0.0, 0.0]),
        "`theta` must have shape (2,), but got (3,)",
    ),
    "linear nan": (lambda: constraints.Linear([1.0, NAN], 0.0), "`coefficients` must be finite, but got nan"),
    "linear bound inf": (lambda: constraints.Linear([1.0], INF), "`bound` must be finite, but got inf"),
    "linear bound count": (
        lambda: constraints.Linear(np.ones((3, 2)), [1.0, 2.0]),
        "`bound` must be one number for each of 3 rows, but got shape (2,)",
    ),
    "linear tensor": (lambda: constraints.Linear(np.ones((1, 1, 1)), 0.0), "`coefficients` must have 0 or 1 or 2 axes"),
    "linear names": (
        lambda: constraints.Linear(np.ones((2, 2)), 0.0, name=["a"]),
        "`name` must give 2 names, but got ['a']",
    ),
    "function without names": (
        lambda: constraints.Function(lambda theta: theta, names=[]),
        "`names` must hold at least one name, but got []",
    ),
    "linear without entries": (lambda: constraints.Linear([], 0.0), "`coefficients`"),
    "quadratic asymmetric": (
        lambda: constraints.Quadratic([[1.0, 2.0], [0.0, 1.0]], 1.0),
        "`matrix` must be symmetric",
    ),
    "quadratic oblong": (lambda: constraints.Quadratic(np.ones((2, 3)), 1.0), "`matrix` must be square, but got shape"),
    "quadratic linear": (
        lambda: constraints.Quadratic(np.eye(2), 1.0, linear=[1.0, 2.0, 3.0]),
        "`linear` must have shape (2,) like the matrix, but got (3,)",
    ),
    "quadratic nan": (lambda: constraints.Quadratic(np.eye(2), NAN), "`bound` must be finite, but got nan"),
    "proximity dimension": (lambda: constraints.Proximity(2, 5, 1.0), "`dimension` must be a multiple of `blocks`"),
    "proximity pair": (
        lambda: constraints.Proximity(2, 4, 1.0, pairs=[(0, 2)]),
        "`pairs` must join two different blocks of 0..1, but got (0, 2)",
    ),
    "proximity without pairs": (
        lambda: constraints.Proximity(2, 2, 1.0, pairs=[]),
        "`pairs` must hold at least one pair, but is empty",
    ),
    "proximity itself": (lambda: constraints.Proximity(2, 4, 1.0, pairs=[(1, 1)]), "two different blocks"),
    "proximity bound": (lambda: constraints.Proximity(3, 6, [1.0, 2.0]), "`bound` must be one number or 3"),
    "proximity active": (lambda: constraints.Proximity(2, 4, 1.0, active=[1.0]), "`active` must be 1 booleans"),
    "proximity blocks": (lambda: constraints.Proximity(1, 4, 1.0), "`blocks` must be a whole number >= 2"),
    "mean nan": (lambda: pf.Gaussian([0.0, NAN], [1.0, 1.0]), "`mean` must be finite, but got nan at index [1]"),
    "mean matrix": (lambda: pf.Gaussian(np.eye(2), np.eye(2)), "`mean` must have 0 or 1 axes, but got shape (2, 2)"),
    "covariance inf": (
        lambda: pf.Gaussian([0.0, 0.0], [[1.0, INF], [INF, 1.0]]),
        "`covariance` must be finite, but got inf at index [0, 1]",
    ),
    "covariance size": (
        lambda: pf.Gaussian([0.0, 0.0], np.eye(3)),
        "`covariance` must fit the mean's length 2, but got shape (3, 3)",
    ),
    "covariance oblong": (lambda: pf.Gaussian([0.0, 0.0], np.ones((2, 3))), "`covariance` must be square"),
    "covariance asymmetric": (
        lambda: pf.Gaussian([0.0, 0.0], [[1.0, 0.5], [0.2, 1.0]]),
        "`covariance` must be symmetric, but entries differ from their mirror by up to 0.3",
    ),
    "covariance indefinite": (
        lambda: pf.Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]),
        "`covariance` must be positive semidefinite, but its smallest eigenvalue is -1",
    ),
    "block indefinite": (
        lambda: pf.Gaussian(np.zeros(4), np.stack([np.eye(2), -np.eye(2)])),
        "`covariance` must be positive semidefinite, but its smallest eigenvalue is -1",
    ),
    "variance negative": (
        lambda: pf.Gaussian([0.0, 0.0], [1.0, -0.5]),
        "`covariance` given as variances must be >= 0, but got -0.5",
    ),
    "samples nan": (
        lambda: pf.Empirical([[0.0, 1.0], [NAN, 1.0]]),
        "`samples` must be finite, but got nan at index [1, 0]",
    ),
    "samples none": (lambda: pf.Empirical(np.zeros((0, 2))), "`samples` must hold at least one row"),
    "samples empty rows": (lambda: pf.Empirical(np.zeros((2, 0))), "of at least one number, but got (2, 0)"),
    "samples tensor": (lambda: pf.Empirical(np.zeros((2, 2, 2))), "`samples` must have 1 or 2 axes"),
    "samples ragged": (lambda: pf.Empirical([[1.0, 2.0], [1.0]]), "`samples` must be numbers"),
    "effect nan": (
        lambda: pf.LocationFamily(BASE, [[NAN, 0.0], [0.0, 1.0]]),
        "`effect` must be finite, but got nan at index [0, 0]",
    ),
    "effect vector": (
        lambda: pf.LocationFamily(BASE, [1.0, 2.0]),
        "`effect` must have 0 or 2 axes, but got shape (2,)",
    ),
    "effect rows": (
        lambda: pf.LocationFamily(BASE, np.ones((3, 2))),
        "`effect` must have one row for each of the 2 numbers in a sample, but got (3, 2)",
    ),
    "pair scale": (lambda: pf.Pair(-1.0), "`exploration > 0` must hold, but got exploration=-1.0"),
    "harmonic": (lambda: steps.harmonic(0.0), "`offset > 0` must hold, but got offset=0.0"),
    "excited": (lambda: steps.excited(0), "`dimension` must be a whole number >= 1, but got dimension=0"),
    "theorem horizon": (lambda: steps.theorem(10, 2.0, 3), "`horizon >= 32 lipschitz²` must hold, but got horizon=10"),
    "theorem rounds": (lambda: steps.theorem(0, 1.0, 3), "`horizon` must be a whole number >= 1, but got horizon=0"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_bad_numbers_are_refused(case):
    call, message = NUMBERS[case]
    refused(message, call)


WRONG_KINDS = {
    "product of numbers": (lambda: pf.Product([1, 2]), "`parts"),
    "loss": (lambda: pf.Problem(3.0, SQUARE), "`loss` must be a function of (theta, z), but got 3.0"),
    "set": (lambda: pf.Problem(loss, (0.0, 1.0)), "`decisions` must be a decision set such as performative.Box"),
    "constraint in a list": (
        lambda: problem([lambda theta: theta[0]]),
        "`constraints[0]` must be one of performative.constraints",
    ),
    "constraints a number": (lambda: problem(5), "`constraints"),
    "constraint function": (lambda: constraints.Function(3), "`function` must be callable, but got 3"),
    "base": (lambda: pf.LocationFamily(5, np.eye(2)), "`base"),
    "problem of a method": (lambda: pf.apda(loss), "`problem` must be a performative.Problem"),
    "exploration": (lambda: pf.apda(PROBLEM, exploration="wide"), "`exploration` must be a number or an object"),
    "exploration class": (
        lambda: pf.apda(PROBLEM, exploration=pf.Pair),
        "a number or an object such as pf.Pair(), but got <class",
    ),
    "problem of the optimum": (lambda: pf.performative_optimum("problem", WORLD), "`problem` must be"),
    "environment of the optimum": (
        lambda: pf.performative_optimum(PROBLEM, None),
        "must have sample(key, theta, n)",
    ),
}


@pytest.mark.parametrize("case", WRONG_KINDS)
def test_objects_of_the_wrong_kind_are_refused(case):
    call, message = WRONG_KINDS[case]
    refused(message, call, TypeError)


@jax.jit
def sampled(world):
    return world.sample(jax.random.key(0), jnp.ones(2), 3)


# Each builds an object of arrays and gives what it computes with them.
BUILT = {
    "box": ((np.zeros(2), np.ones(2)), lambda low, high: pf.Box(low, high), lambda thing: thing.project([-3.0, 3.0])),
    "ball": ((np.ones(2),), lambda center: pf.Ball(1.0, center), lambda thing: thing.project([5.0, 5.0])),
    "half-space": ((np.ones(2),), lambda normal: pf.HalfSpace(normal, 1.0), lambda thing: thing.project([5.0, 5.0])),
    "linear": (
        (np.ones((2, 2)), np.zeros(2)),
        lambda rows, bound: pf.constraints.Linear(rows, bound),
        lambda thing: thing([1.0, 2.0]),
    ),
    "quadratic": (
        (np.eye(2), np.ones(2)),
        lambda matrix, linear: pf.constraints.Quadratic(matrix, 1.0, linear),
        lambda thing: thing([1.0, 2.0]),
    ),
    "proximity": (
        (np.ones(1), np.ones(1, dtype=bool)),
        lambda bound, active: pf.constraints.Proximity(2, 2, bound, active=active),
        lambda thing: thing([1.0, 3.0]),
    ),
    "gaussian": (
        (np.ones(2), np.eye(2), np.eye(2)),
        lambda mean, covariance, effect: pf.LocationFamily(pf.Gaussian(mean, covariance), effect),
        sampled,
    ),
    "variances": (
        (np.ones(2), np.ones(2)),
        lambda mean, variances: pf.Gaussian(mean, variances),
        lambda thing: thing.full_covariance(),
    ),
    "empirical": (
        (np.arange(6.0).reshape(3, 2), np.eye(2)),
        lambda samples, effect: pf.LocationFamily(pf.Empirical(samples), effect),
        sampled,
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_what_is_built_does_not_change_with_the_arrays_it_was_built_of(name):
    arrays, build, use = BUILT[name]
    arrays = [array.copy() for array in arrays]
    thing = build(*arrays)
    before = np.array(use(thing))
    for array in arrays:
        array[...] = 0 if array.dtype == bool else 7.0
    np.testing.assert_array_equal(use(thing), before)
    for leaf in jax.tree.leaves(thing):
        assert not isinstance(leaf, np.ndarray) or not leaf.flags.writeable
