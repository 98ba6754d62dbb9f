import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pf
from performative.constraints import Chance, CVaR, Expected, Gap, Linear
from performative.numerics.outcomes import NormalOutcome, Outcomes
from performative.numerics.precision import precise


def sold(theta, z):
    return z[0]


def loss(theta, z):
    return -jnp.sum(theta * z)


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (lambda: Expected(3.0), TypeError, "`h` must be a function of one decision and one sample"),
        (lambda: Expected(sold, bound=np.nan), ValueError, "`bound` must be finite, but got nan"),
        (
            lambda: Expected(sold, bound=[1.0, 2.0]),
            ValueError,
            "`bound` must be one number, or one for each of 1 names",
        ),
        (lambda: Expected(sold, name=[]), ValueError, "`name` must hold a name"),
        (lambda: Chance(sold, at_most=0.0), ValueError, "`0 < at_most < 1` must hold, but got at_most=0.0"),
        (lambda: Chance(sold, at_most=np.nan), ValueError, "at_most"),
        (lambda: Chance("late", at_most=0.1), TypeError, "`event` must be a function"),
        (lambda: CVaR(sold, level=1.0, bound=1.0), ValueError, "`0 < level < 1` must hold, but got level=1.0"),
        (lambda: CVaR(sold, level=-0.1, bound=1.0), ValueError, "`0 < level < 1` must hold"),
        (lambda: CVaR(sold, level=0.9, bound=np.inf), ValueError, "`bound` must"),
        (lambda: Gap(sold, group=None, at_most=0.1), TypeError, "`group` must be a function of a sample, or the index"),
        (lambda: Gap(sold, group=True, at_most=0.1), TypeError, "`group` must be a function of a sample"),
        (lambda: Gap(sold, group=1, at_most=-0.1), ValueError, "`at_most >= 0` must hold, but got at_most=-0.1"),
        (lambda: Gap(sold, group=1, at_most=0.1, name=""), TypeError, "`name` must be a text"),
    ],
)
def test_a_bad_declaration_is_refused_at_the_door(make, error, rule):
    with pytest.raises(error, match=rule.replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        (Expected(lambda theta, z: z), r"`h` must return one number for each of the names \['expected'\]"),
        (Expected(lambda theta, z: z[0], name=["a", "b"]), "`h` must return one number for each of the names"),
        (Expected(lambda theta, z: z[7] @ z), "`h` must take a decision of shape"),
        (Chance(lambda theta, z: z, at_most=0.1), "`event` must return one number for one sample"),
        (CVaR(lambda theta, z: theta, level=0.9, bound=0.0), "`h` must return one number for one sample"),
        (Gap(sold, group=5, at_most=0.1), "`group` must be a column of samples of 2 numbers, but got 5"),
        (Gap(sold, group=lambda z: z, at_most=0.1), "`group` must return one number"),
    ],
)
def test_functions_that_do_not_fit_the_data_are_refused_before_anything_is_computed(limit, rule):
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], [1.0, 1.0]), [limit])
    world = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [1.0, 1.0]), effect=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=rule):
        pf.performative_optimum(problem, world)


def test_limits_on_what_a_decision_causes_come_last_and_are_numbered_like_others():
    cap = Linear([1.0, 1.0], bound=4.0, name="cap")
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], [5.0, 5.0]), [Expected(sold), cap, Expected(sold, bound=1.0)])
    assert problem.constraint_names == ("cap", "expected1", "expected2")
    assert problem.caused_names == ("expected1", "expected2")
    assert problem.known.constraint_names == ("cap",)
    with pytest.raises(TypeError, match=r"\['expected1', 'expected2'\] depend on what it causes"):
        problem.g([1.0, 1.0])
    with pytest.raises(ValueError, match="different names"):
        pf.Problem(loss, pf.Box([0.0, 0.0], [5.0, 5.0]), [cap, Expected(sold, name="cap")])
    alone = pf.Problem(loss, pf.Box([0.0, 0.0], [5.0, 5.0]), Expected(sold))
    assert alone.constraint_names == ("expected",)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=12),
    st.floats(0.05, 0.95),
    st.integers(0, 2**31 - 1),
)
def test_the_mean_of_the_worst_is_the_least_value_of_its_program(values, level, seed):
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(values)))
    with precise():
        found = float(Outcomes(jnp.asarray(values), jnp.asarray(weights), jnp.zeros(())).upper_mean(level))
    # Rockafellar and Uryasev: min over τ of τ + E(X − τ)⁺/(1 − level), attained at one of the values
    program = [tau + weights @ np.maximum(np.asarray(values) - tau, 0.0) / (1.0 - level) for tau in values]
    assert found == pytest.approx(min(program), abs=1e-9)


def test_a_normal_outcome_agrees_with_many_draws():
    draws = np.random.default_rng(0).normal(0.3, 2.0, 400_000)
    with precise():
        normal = NormalOutcome(jnp.asarray(0.3), jnp.asarray(2.0))
        drawn = Outcomes(jnp.asarray(draws), jnp.full(draws.size, 1.0 / draws.size), jnp.zeros(()))
        assert float(normal.positive()) == pytest.approx(float(drawn.positive()), abs=4 * 0.5 / np.sqrt(draws.size))
        # the worst tenth are 40,000 draws of standard deviation below 2, and their threshold is uncertain, too
        assert float(normal.upper_mean(0.9)) == pytest.approx(float(drawn.upper_mean(0.9)), abs=4 * 4.0 / 200)


def test_a_number_without_spread_is_above_zero_or_not():
    with precise():
        for mean, share in ((1.0, 1.0), (-1.0, 0.0)):
            one = NormalOutcome(jnp.asarray(mean), jnp.zeros(()))
            assert float(one.positive()) == share
            assert np.isfinite(float(jax.grad(lambda m, one=one: NormalOutcome(m, one.spread).positive())(mean)))
