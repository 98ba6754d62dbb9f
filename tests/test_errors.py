"""Bad input is refused at the door, by a message that names the argument, the rule and the value."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import performative as pf
from performative import constraints, steps
from performative.numerics.precision import precise
from performative.simulation import simulate as simulating
from performative.simulation import worlds
from performative.simulation.dataset import recorded_rounds

NAN, INF = float("nan"), float("inf")
KEY = jax.random.key(0)


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


def weighted_loss(weight, theta, z):
    return weight * loss(theta, z)


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


# Sets, constraints, distributions: (call, what the message must say).
NUMBERS = {
    "box lower nan": (lambda: pf.Box([0.0, NAN], [1.0, 1.0]), "`lower` must be finite, but got nan at index [1]"),
    "box upper inf": (lambda: pf.Box(0.0, INF), "`upper` must be finite, but got inf"),
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
    "ball center scalar": (lambda: pf.Ball(1.0, 0.0), "`center` must have 1 axes, but got shape ()"),
    "simplex negative": (lambda: pf.Simplex(-2.0), "`total > 0` must hold, but got total=-2.0"),
    "simplex dimension": (lambda: pf.Simplex(1.0, 0), "`dimension` must be a whole number >= 1, but got dimension=0"),
    "budget nan": (lambda: pf.Budget(NAN), "`total` must be finite, but got nan"),
    "half-space zero": (lambda: pf.HalfSpace([0.0, 0.0], 1.0), "`normal` must not be zero, but got [0. 0.]"),
    "half-space offset": (lambda: pf.HalfSpace([1.0], INF), "`offset` must be finite, but got inf"),
    "half-space matrix": (lambda: pf.HalfSpace(np.eye(2), 1.0), "`normal` must have 1 axes, but got shape (2, 2)"),
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
    "constraints length": (lambda: problem([IDLE]).g([0.0, 0.0, 0.0]), "`theta` must have shape (2,), but got (3,)"),
    "linear nan": (lambda: constraints.Linear([1.0, NAN], 0.0), "`coefficients` must be finite, but got nan"),
    "linear bound inf": (lambda: constraints.Linear([1.0], INF), "`bound` must be finite, but got inf"),
    "linear bound count": (
        lambda: constraints.Linear(np.ones((3, 2)), [1.0, 2.0]),
        "`bound` must be one number for each of 3 rows, but got shape (2,)",
    ),
    "linear tensor": (lambda: constraints.Linear(np.ones((1, 1, 1)), 0.0), "`coefficients` must have 1 or 2 axes"),
    "linear names": (
        lambda: constraints.Linear(np.ones((2, 2)), 0.0, name=["a"]),
        "`name` must give 2 names, but got ['a']",
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
        "`pairs` must hold at least one pair, but got none",
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
    "effect vector": (lambda: pf.LocationFamily(BASE, [1.0, 2.0]), "`effect` must have 2 axes, but got shape (2,)"),
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
    "exploration": (lambda: pf.apda(PROBLEM, exploration="wide"), "`exploration` must be a number or a part"),
    "problem of the optimum": (lambda: pf.performative_optimum("problem", WORLD), "`problem` must be"),
    "environment of the optimum": (
        lambda: pf.performative_optimum(PROBLEM, None),
        "needs an environment whose truth is known",
    ),
}


@pytest.mark.parametrize("case", WRONG_KINDS)
def test_objects_of_the_wrong_kind_are_refused(case):
    call, message = WRONG_KINDS[case]
    refused(message, call, TypeError)


# Problems.
@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (lambda theta: None, "NoneType"),
        (lambda theta: jnp.zeros((0,)), "shape (0,)"),
        (lambda theta: jnp.outer(theta, theta), "shape (2, 2)"),
        (lambda theta: [theta[0], theta[1]], "list"),
        (lambda theta: theta + 1j, "complex"),
    ],
    ids=["none", "nothing", "matrix", "list", "complex"],
)
def test_constraints_must_return_a_vector(returned, named):
    with pytest.raises(ValueError, match=r"`constraints` must return a scalar or a vector \(m,\).*" + re.escape(named)):
        problem(returned)


def test_constraints_must_take_the_decision():
    refused(
        "`constraints` must take a decision of shape (2,), but failed", lambda: problem(lambda theta: theta @ np.eye(3))
    )


def test_names_must_match_the_constraints():
    refused(
        "`names` must name each of the 2 constraints, but got ['a']",
        lambda: problem([constraints.Function(lambda theta: theta, names=["a"])]),
    )


def test_constraints_must_have_different_names():
    same = [constraints.Linear([1.0, 0.0], 1.0, name="cap"), constraints.Linear([0.0, 1.0], 1.0, name="cap")]
    refused("constraints must have different names, but got ['cap', 'cap']", lambda: problem(same))


@pytest.mark.parametrize(
    ("rules", "decisions", "dimension", "named"),
    [
        ([constraints.Linear([1.0, 1.0, 1.0], 1.0)], SQUARE, None, "{'decisions': 2, 'constraints[0]': 3}"),
        (None, SQUARE, 3, "{'dimension': 3, 'decisions': 2}"),
        (
            [constraints.Linear([1.0, 1.0], 1.0), constraints.Quadratic(np.eye(3), 1.0)],
            pf.Ball(1.0),
            None,
            "{'constraints[0]': 2, 'constraints[1]': 3}",
        ),
    ],
)
def test_all_parts_of_a_problem_must_have_one_dimension(rules, decisions, dimension, named):
    refused(
        f"all parts of a problem must have one dimension, but got {named}", lambda: problem(rules, decisions, dimension)
    )


def test_an_unknown_dimension_is_refused_where_it_is_needed():
    free = pf.Problem(loss, pf.Ball(1.0))
    refused("the problem's dimension must be known", lambda: pf.apda(free).init(KEY))


@pytest.mark.parametrize("use", ["risk", "optimum", "simulate"])
def test_a_loss_that_returns_a_vector_is_refused(use):
    vector = pf.Problem(lambda theta, z: z - theta, SQUARE)
    calls = {
        "risk": lambda: pf.performative_risk(vector, WORLD, [0.0, 0.0]),
        "optimum": lambda: pf.performative_optimum(vector, WORLD),
        "simulate": lambda: pf.simulate({"apda": pf.apda(vector)}, WORLD, rounds=2),
    }
    refused("`loss` must return a scalar for one sample, but returned shape (2,)", calls[use])


def test_a_loss_that_returns_nothing_is_refused():
    nothing = pf.Problem(lambda theta, z: None, SQUARE)
    refused(
        "`loss` must return a scalar for one sample, but returned NoneType",
        lambda: pf.performative_optimum(nothing, WORLD),
    )


def test_a_loss_for_other_data_is_refused():
    other = pf.Problem(lambda theta, z: z @ np.ones(3), SQUARE)
    refused(
        "`loss` must take a decision of shape (2,) and one sample of shape (2,), but failed",
        lambda: pf.performative_optimum(other, WORLD),
    )


# Environments.
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


def test_the_risk_is_refused_at_bad_decisions():
    refused(
        "`theta` must be finite, but got nan at index [1]", lambda: pf.performative_risk(PROBLEM, WORLD, [0.0, NAN])
    )
    refused(
        "`theta` must have shape (2,) like the problem's decisions, but got (3,)",
        lambda: pf.performative_risk(PROBLEM, WORLD, [0.0, 0.0, 0.0]),
    )


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_an_optimum_is_refused_a_bad_start(find):
    refused("`start` must be finite, but got nan at index [0]", lambda: find(PROBLEM, WORLD, start=[NAN, 0.0]))
    with pytest.raises(ValueError, match=r"`start`|dimension"):
        find(PROBLEM, WORLD, start=[0.0, 0.0, 0.0])


# Methods.
@pytest.mark.parametrize("make", [pf.apda, pf.pd_ps, lambda p, **options: pf.oracle(p, effect=np.eye(2), **options)])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "`step > 0` must hold, but got step=0.0"),
        ({"step": -0.1}, "`step > 0` must hold, but got step=-0.1"),
        ({"step": NAN}, "`step` must be finite, but got nan"),
        ({"step": INF}, "`step` must be finite, but got inf"),
        ({"step": "fast"}, "`step` must be numbers, but got 'fast'"),
        ({"step": None}, "`step` must be numbers, but got None"),
        ({"step": [0.1, 0.2]}, "`step` must have 0 axes, but got shape (2,)"),
        ({"step": lambda t: -1.0}, "`step(t)` must be a positive number for every round t, but at t=1 it is -1.0"),
        ({"step": lambda t: NAN}, "`step(t)` must be a positive number for every round t, but at t=1 it is nan"),
        ({"control": 0.0}, "`control > 0` must hold, but got control=0.0"),
        ({"control": NAN}, "`control` must be finite, but got nan"),
        ({"warmup": 0}, "`warmup` must be a whole number >= 1, but got warmup=0"),
        ({"warmup": 2.5}, "`warmup` must be a whole number >= 1, but got warmup=2.5"),
        ({"samples": 0}, "`samples` must be a whole number >= 1, but got samples=0"),
        ({"start": [NAN, 0.0]}, "`start` must be finite, but got nan at index [0]"),
        ({"start": [[0.0, 0.0]]}, "`start` must have 1 axes, but got shape (1, 2)"),
        ({"start": [0.0, 0.0, 0.0]}, "has dimension 2, but `start` is for decisions of 3 numbers"),
        ({"start": [2.0, 0.0]}, "`start` must lie in the decision set"),
    ],
)
def test_bad_options_of_a_method_are_refused(make, options, message):
    refused(message, lambda: make(PROBLEM, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimation_step": -1.0}, "`estimation_step > 0` must hold, but got estimation_step=-1.0"),
        ({"estimation_step": NAN}, "`estimation_step` must be finite, but got nan"),
        ({"exploration": 0.0}, "`exploration > 0` must hold, but got exploration=0.0"),
        ({"exploration": NAN}, "`exploration` must be finite, but got nan"),
        ({"effect": [[NAN, 0.0]]}, "`effect` must be finite, but got nan at index [0, 0]"),
        ({"effect": [1.0, 2.0]}, "`effect` must have 2 axes, but got shape (2,)"),
        ({"effect": np.ones((2, 3))}, "has dimension 2, but `effect` is for decisions of 3 numbers"),
        ({"shift": lambda effect, theta: effect @ theta}, "`effect` must be given with `shift`"),
    ],
)
def test_bad_options_of_the_adaptive_method_are_refused(options, message):
    refused(message, lambda: pf.apda(PROBLEM, **options))


@pytest.mark.parametrize("exploration", [0.5, np.float64(0.5), np.float32(0.5), pf.Pair(0.5)])
def test_the_default_estimation_step_knows_the_scale_of_the_probes_however_it_is_given(exploration):
    assert pf.apda(PROBLEM, exploration=exploration).estimator.effects.probe == 0.5


@pytest.fixture(scope="module")
def warm():
    """A method after its warm-up, with the decisions of its first round."""
    method = pf.apda(PROBLEM, warmup=4)
    opening = method.init(KEY)
    state = method.tell(opening, method.ask(opening, KEY), np.random.default_rng(0).normal(size=(1, 4, 2)))
    return method, state, np.asarray(method.ask(state, KEY))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 2)), "`samples` must have shape (2, n, k), but got (2, 2)"),
        (np.zeros(2), "`samples` must have shape (2, n, k), but got (2,)"),
        (np.zeros((3, 1, 2)), "`samples` must have shape (2, n, k), but got (3, 1, 2)"),
        (np.zeros((2, 0, 2)), "`samples` must have shape (2, n, k), but got (2, 0, 2)"),
        (np.full((2, 1, 2), NAN), "`samples` must be finite, but got nan at index [0, 0, 0]"),
        (np.array([[[0.0, 1.0]], [[INF, 0.0]]]), "`samples` must be finite, but got inf at index [1, 0, 0]"),
        (np.zeros((2, 1, 3)), "one sample of shape (3,)"),
        ("many", "`samples` must be numbers"),
        ([[[1.0, 2.0]], [[1.0]]], "`samples` must be numbers"),
    ],
    ids=["matrix", "vector", "count", "none", "nan", "inf", "width", "words", "ragged"],
)
def test_bad_samples_are_refused(warm, samples, message):
    method, state, decisions = warm
    refused(message, lambda: method.tell(state, decisions, samples))


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        (np.zeros((2, 3)), "`decisions` must have shape (b, 2), but got (2, 3)"),
        (np.zeros(2), "`decisions` must have shape (b, 2), but got (2,)"),
        (np.full((2, 2), NAN), "`decisions` must be finite, but got nan at index [0, 0]"),
    ],
)
def test_bad_decisions_are_refused(warm, decisions, message):
    method, state, _ = warm
    refused(message, lambda: method.tell(state, decisions, np.zeros((2, 1, 2))))


def test_samples_of_another_width_than_the_warm_up_are_refused(warm):
    # One number would broadcast over both.
    method, state, decisions = warm
    with pytest.raises(ValueError, match=r"`samples`.*\(2, 1, 1\)|sample.*1"):
        method.tell(state, decisions, np.zeros((2, 1, 1)))


@pytest.mark.parametrize("count", [1, 3])
def test_a_round_told_without_its_pair_is_refused(warm, count):
    method, state, decisions = warm
    with pytest.raises(ValueError, match="`decisions` must"):
        method.tell(state, np.resize(decisions, (count, 2)), np.zeros((count, 1, 2)))


def test_samples_that_do_not_fit_a_given_effect_are_refused():
    method = pf.oracle(PROBLEM, effect=np.ones((3, 2)), warmup=4)
    with pytest.raises(ValueError, match=r"`effect` must|`samples` must"):
        method.tell(method.init(KEY), np.zeros((1, 2)), np.zeros((1, 4, 2)))


# Problems without a solution.
LOW = constraints.Linear([1.0, 0.0], -0.5, name="low")
HIGH = constraints.Linear([-1.0, 0.0], -0.25, name="high")
IDLE = constraints.Linear([0.0, 1.0], 5.0, name="idle")


@pytest.mark.parametrize(
    ("rules", "decisions", "conflicting", "violation"),
    [
        ([LOW, HIGH, IDLE], SQUARE, {"low", "high"}, 0.375),  # θ₁ ≤ −0.5 and θ₁ ≥ 0.25 meet half-way
        ([LOW, HIGH], pf.Reals(2), {"low", "high"}, 0.375),
        ([constraints.Linear([-1.0, 0.0], -2.0, name="far"), IDLE], SQUARE, {"far"}, 1.0),  # against the set alone
        ([constraints.Quadratic(np.eye(2), -1.0, name="ball")], SQUARE, {"ball"}, 1.0),
        (lambda theta: jnp.sum(theta**2) + 2.0, SQUARE, {"g1"}, 2.0),
    ],
    ids=["conflict", "unbounded", "set", "quadratic", "function"],
)
@pytest.mark.parametrize("use", ["apda", "pd_ps", "optimum", "stable"])
def test_an_empty_feasible_set_is_refused_by_name_and_amount(use, rules, decisions, conflicting, violation):
    impossible = problem(rules, decisions)
    calls = {
        "apda": lambda: pf.apda(impossible),
        "pd_ps": lambda: pf.pd_ps(impossible),
        "optimum": lambda: pf.performative_optimum(impossible, WORLD),
        "stable": lambda: pf.stable_point(impossible, WORLD),
    }
    with pytest.raises(pf.InfeasibleProblem, match="the smallest max") as caught:
        calls[use]()
    assert set(caught.value.conflicting) == conflicting
    assert caught.value.violation == pytest.approx(violation, abs=1e-6)
    assert f"{violation:.3g}" in str(caught.value)
    for name in conflicting:
        assert name in str(caught.value)
    assert "idle" not in str(caught.value)


def test_a_constraint_that_is_not_a_number_is_refused_by_name():
    with pytest.raises(ValueError, match=r"constraint|g1"):
        pf.apda(problem(lambda theta: jnp.log(theta[0] - 0.5)))


# Simulations.
@pytest.fixture
def no_work(monkeypatch):
    """Fail if anything is solved or run."""

    def never(*arguments, **options):
        raise AssertionError("work was done before the arguments were checked")

    monkeypatch.setattr(worlds, "performative_optimum", never)
    monkeypatch.setattr(simulating, "run_jobs", never)


METHODS = {"apda": pf.apda(PROBLEM, warmup=2)}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "`rounds` must be a whole number >= 1, but got rounds=0"),
        ({"rounds": -3}, "`rounds` must be a whole number >= 1, but got rounds=-3"),
        ({"rounds": 1.5}, "`rounds` must be a whole number >= 1, but got rounds=1.5"),
        ({"rounds": True}, "`rounds` must be a whole number >= 1, but got rounds=True"),
        ({"realizations": 0}, "`realizations` must be a whole number >= 1, but got realizations=0"),
        ({"realizations": 2.0}, "`realizations` must be a whole number >= 1, but got realizations=2.0"),
        ({"seed": -1}, "`seed` must be a whole number >= 0, but got seed=-1"),
        ({"seed": 2**70}, f"`seed` must be at most {2**63 - 1}, but got seed={2**70}"),
        ({"batch": 0}, "`batch` must be a whole number >= 1, but got batch=0"),
        ({"workers": 0}, "`workers` must be a whole number >= 1, but got workers=0"),
        ({"chunk": 0}, "`chunk` must be a whole number >= 1, but got chunk=0"),
        ({"record": 1}, "`record` must be a whole number >= 2, but got record=1"),
        ({"record": [0]}, "`record` must be a whole number >= 1, but got record=0"),
        ({"record": [1, 6]}, "`record` must lie within 1..5, but got 6"),
        ({"record": 2.5}, "`record` must be"),
    ],
)
def test_bad_options_of_a_simulation_are_refused_before_any_work(options, message):
    refused(message, lambda: pf.simulate(METHODS, WORLD, **{"rounds": 5, **options}))


def test_the_number_of_records_may_be_a_numpy_integer():
    assert recorded_rounds(100, np.int64(5)) == recorded_rounds(100, 5)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("methods", "kind", "message"),
    [
        ({}, ValueError, "`methods` must be a mapping from names (strings) to methods, with at least one, but got {}"),
        (METHODS["apda"], ValueError, "`methods` must be a mapping from names (strings) to methods"),
        ([METHODS["apda"]], ValueError, "`methods` must be a mapping from names (strings) to methods"),
        (
            {"apda": 3},
            TypeError,
            "`methods['apda']` must be a method such as performative.apda(problem), "
            "with init, ask, wanted, tell and problem, but got 3",
        ),
        ({"apda": pf.apda}, TypeError, "`methods['apda']` must be a method such as performative.apda(problem)"),
        (
            {"apda": None},
            TypeError,
            "`methods['apda']` must be a method such as performative.apda(problem), "
            "with init, ask, wanted, tell and problem, but got None",
        ),
        ({"apda": []}, ValueError, "lists of instances must have one length, at least 1"),
    ],
    ids=["none", "bare", "list", "number", "uncalled", "None", "empty list"],
)
def test_bad_methods_of_a_simulation_are_refused(methods, kind, message):
    refused(message, lambda: pf.simulate(methods, WORLD, rounds=5), kind)


@pytest.mark.usefixtures("no_work")
def test_bad_worlds_and_problems_of_a_simulation_are_refused():
    refused(
        "`environment` must have sample(key, theta, n), but got 3", lambda: pf.simulate(METHODS, 3, rounds=5), TypeError
    )
    refused("`problem` must be", lambda: pf.simulate(METHODS, WORLD, rounds=5, problem="x"), TypeError)


@pytest.mark.usefixtures("no_work")
def test_a_bad_optimum_of_a_simulation_is_refused():
    refused("`optimum` must be", lambda: pf.simulate(METHODS, WORLD, rounds=5, optimum="x"), TypeError)


@pytest.mark.usefixtures("no_work")
def test_lists_of_instances_of_different_lengths_are_refused():
    method = METHODS["apda"]
    refused(
        "lists of instances must have one length, at least 1, but got {\"methods['apda']\": 2, 'environment': 3}",
        lambda: pf.simulate({"apda": [method] * 2}, [WORLD] * 3, rounds=5),
    )


OTHER_SIZE = pf.LocationFamily(pf.Empirical(np.zeros((4, 2))), np.eye(2))
INSTANCES = {
    "settings": ({"apda": [pf.apda(PROBLEM, warmup=2), pf.apda(PROBLEM, warmup=3)]}, WORLD),
    "worlds": (METHODS, [WORLD, OTHER_SIZE]),
    "losses": (
        {"apda": [pf.apda(pf.Problem(Partial(f), SQUARE), warmup=2) for f in (loss, lambda t, z: loss(t, z))]},
        WORLD,
    ),
}


@pytest.mark.parametrize("case", INSTANCES)
def test_instances_of_different_structure_are_refused(case):
    methods, world = INSTANCES[case]
    refused(
        "all instances must have the same structure and differ in their numbers alone, but instance 1",
        lambda: pf.simulate(methods, world, rounds=5),
    )


def test_instances_with_arrays_of_different_shapes_are_refused():
    worlds = [pf.LocationFamily(pf.Empirical(np.zeros((n, 2))), np.eye(2)) for n in (3, 4)]
    refused(
        "all instances must have arrays of the same shapes, but got [(3, 2), (4, 2)]",
        lambda: pf.simulate(METHODS, worlds, rounds=5),
    )


@pytest.mark.usefixtures("no_work")
def test_methods_with_other_constraints_than_those_measured_are_refused():
    refused(
        "`methods['apda']` must have the constraints ('low',) that are measured, but has ()",
        lambda: pf.simulate(METHODS, WORLD, rounds=5, problem=problem([LOW])),
    )


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("rows", [1, 3])
def test_a_known_effect_that_does_not_fit_the_world_is_refused(rows):
    # One row would broadcast over both numbers of a sample.
    method = pf.oracle(PROBLEM, effect=np.ones((rows, 2)), warmup=2)
    with pytest.raises(ValueError, match="effect"):
        pf.simulate({"oracle": method}, WORLD, rounds=5)


def test_one_problem_in_one_world_is_solved_once_however_many_instances(monkeypatch):
    solve, solved = worlds.performative_optimum, []

    def counted(*arguments):
        solved.append(arguments)
        return solve(*arguments)

    monkeypatch.setattr(worlds, "performative_optimum", counted)
    with precise():
        worlds.make_worlds({"apda": [pf.apda(PROBLEM, step=step) for step in (0.1, 0.2, 0.3)]}, WORLD, None, None)
    assert len(solved) == 1


@pytest.fixture(scope="module")
def wild_run():
    """A step of a million on an unbounded set, next to a sane one."""
    unbounded = pf.Problem(loss, pf.Reals(2), [constraints.Linear([1.0, 0.0], 5.0, name="cap")])
    methods = {"wild": pf.apda(unbounded, step=1e6, warmup=5), "tame": pf.apda(unbounded, warmup=5)}
    with pytest.warns(pf.NonFiniteWarning) as caught:
        data = pf.simulate(methods, WORLD, rounds=80, realizations=3, record=list(range(1, 81)))
    return data, caught


def test_a_step_that_is_too_large_is_reported_by_method_and_round(wild_run):
    data, caught = wild_run
    first = int(data.failed.sel({"algorithm": "wild"}).min())
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("method 'wild': iterates became non-finite in 3 of 3 realisations")
    assert f"first seen in round {first};" in message
    assert "(step=1e+06)" in message
    assert caught[0].filename == __file__


def test_records_before_a_failure_are_kept(wild_run):
    data, _ = wild_run
    wild, tame = data.sel({"algorithm": "wild"}), data.sel({"algorithm": "tame"})
    assert np.all(tame.failed == 0)
    assert np.all(np.isfinite(tame.regret))
    for realization in data.realization.values:
        run = wild.sel({"realization": realization})
        failed = int(run.failed)
        assert failed > 10  # a factor of 1e6 a round takes some fifty rounds to overflow
        assert np.all(np.isfinite(run.decision.sel({"t": slice(1, failed - 1)})))
        assert not np.all(np.isfinite(run.decision.sel({"t": slice(failed, None)})))
        # The risk is quadratic in the decision and overflows in half as many rounds.
        assert np.all(np.isfinite(run.regret.sel({"t": slice(1, failed // 2 - 2)})))
