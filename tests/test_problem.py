"""Problems whose parts do not fit are refused."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import constraints

KEY = jax.random.key(0)


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


SQUARE = pf.Box([-1.0, -1.0], [1.0, 1.0])


BASE = pf.Gaussian([0.0, 0.0], [1.0, 1.0])


WORLD = pf.LocationFamily(BASE, 0.1 * np.eye(2))


def problem(rules=None, decisions=SQUARE, dimension=None):
    return pf.Problem(loss, decisions, rules, dimension)


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


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
        f"all parts of a problem must have the same dimension, but got {named}",
        lambda: problem(rules, decisions, dimension),
    )


def test_an_unknown_dimension_is_refused_where_it_is_needed():
    free = pf.Problem(loss, pf.Ball(1.0))
    refused("the problem's dimension is unknown", lambda: pf.apda(free).init(KEY))
    refused("the problem's dimension is unknown", lambda: free.d)
    assert free.dimension is None
    assert free.of_dimension(3).d == 3


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


def test_constraints_without_names_are_numbered():
    rows = [
        constraints.Linear([1.0, 0.0], 1.0),
        constraints.Linear(np.eye(2), 1.0),
        constraints.Quadratic(np.eye(2), 1.0),
    ]
    named = constraints.Linear([0.0, 1.0], 1.0, name="cap")
    made = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Ball(1.0), [*rows, named])
    assert made.constraint_names == ("linear1", "linear2[0]", "linear2[1]", "quadratic", "cap")
    assert pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Ball(1.0), rows[:1]).constraint_names == ("linear",)


def test_numbers_will_do_where_a_decision_is_one_number(tmp_path):
    problem = pf.Problem(
        lambda price, demand: -jnp.sum(price * demand), pf.Box(0.0, 5.0), [constraints.Linear(1.0, 4.0)]
    )
    market = pf.LocationFamily(pf.Gaussian(4.0, 0.25), effect=-1.0)
    assert pf.performative_risk(problem, market, 1.0) == -3.0
    assert float(problem.g(1.0)[0]) == -3.0
    assert problem.decisions.contains(1.0)
    assert float(pf.performative_optimum(problem, market, start=1.0).decision[0]) == pytest.approx(2.0)
    method = pf.repeated_gradient(problem, start=1.0, step=0.5)
    state = method.init(jax.random.key(0))
    told = [method.tell(state, decisions, samples) for decisions, samples in (([[1.0]], [[[4.0]]]), (1.0, 4.0))]
    assert float(told[0].decision[0]) == float(told[1].decision[0]) != 1.0
    with pf.Study.create(tmp_path / "s.db", "s", method) as study:
        assert study.tell(study.ask(), 4.0).decision == pytest.approx(np.asarray(told[0].decision))
    with pytest.raises(ValueError, match=r"must have shape \(1, n, k\), but got \(3, 1\); samples\[None\] adds"):
        method.tell(state, [[1.0]], np.ones((3, 1)))
