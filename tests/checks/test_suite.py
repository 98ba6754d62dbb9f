"""Conformance: every method of the library passes every check, and whatever else is refused with evidence."""

import random

import jax.numpy as jnp
import numpy as np
import pytest
from broken_methods import AsksForHalfASample, LooksAtItsNumbers
from plain_methods import ECHO, EXPLORER, failed

import performative as pf
from performative import checks

EFFECT = np.array([[-1.5, 0.3], [0.2, -1.0]])


def revenue(prices, demand):
    return -jnp.sum(prices * demand)


@pytest.fixture(scope="module")
def market():
    """Two prices whose sum is capped: problem and environment."""
    problem = pf.Problem(revenue, pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], 0.5, name="cap")])
    return problem, pf.LocationFamily(pf.Gaussian([4.0, 5.0], 0.25 * np.eye(2)), EFFECT)


def density(z, theta):
    return -2.0 * jnp.sum((z - jnp.array([4.0, 5.0]) - EFFECT @ theta) ** 2)


METHODS = {  # a method that is added to the library is added here
    "apda": lambda problem: pf.apda(problem, warmup=20),
    "apda, recycling": lambda problem: pf.apda(problem, warmup=20, recycle=True),
    "pd_ps": lambda problem: pf.pd_ps(problem, warmup=20),
    "oracle": lambda problem: pf.oracle(problem, warmup=20, effect=EFFECT),
    "safe_apda": pf.safe_apda,
    "stay": pf.stay,
    "least_squares": lambda problem: pf.least_squares(problem, design=2, samples=3),
    "thompson": lambda problem: pf.thompson(problem, samples=3),
    "repeated_gradient": pf.repeated_gradient,
    "repeated_minimization": lambda problem: pf.repeated_minimization(problem, samples=5),
    "two_stage": lambda problem: pf.two_stage(problem, stage=3, warmup=5),
    "perfgd": lambda problem: pf.perfgd(problem, family=pf.Normal(0.25 * np.ones(2)), memory=4),
    "score_gradient": lambda problem: pf.score_gradient(problem, log_density=density),
    "one_point": pf.one_point,
    "two_point": pf.two_point,
    "confidence_bounds": lambda problem: pf.confidence_bounds(problem, sensitivity=5.0, arms=11),
    "saddle": lambda problem: pf.saddle(problem, ascending=[1]),
}


RIVALS = ("least_squares", "thompson")
"""They take long to compile, and share what they are made of with `safe_apda`."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in RIVALS else name for name in METHODS]
)
def test_a_method_of_the_library_passes_every_check(market, name):
    problem, environment = market
    checks.require(METHODS[name](problem), environment, rounds=6)


def test_a_plain_method_passes_every_check_and_the_evidence_has_numbers():
    results = checks.conformance(EXPLORER, ECHO, rounds=8)
    assert [check.name for check in results] == list(checks.CHECKS)
    assert all(check.passed for check in results), results
    for check in results:
        assert "\n" not in check.evidence
        assert any(letter.isdigit() for letter in check.evidence), check


@pytest.mark.parametrize("thing", [object(), None, pf.Box(0.0, 1.0)])
def test_what_is_no_method_fails_every_check_and_raises_nothing(thing):
    failures = failed(thing)
    assert set(failures) == set(checks.CHECKS)
    assert failures["protocol"] == "`init` must be a function of the method, but is not"
    assert failures["seeding"].startswith("AttributeError: ")


def test_an_exception_is_evidence():
    failures = failed(AsksForHalfASample())
    assert failures["protocol"] == "`wanted` must be a whole number >= 1, but got 0.5"
    assert all(text.startswith("TypeError: ") for name, text in failures.items() if name != "protocol")


def test_require_lists_every_failed_check():
    with pytest.raises(checks.NotConforming, match="must pass all 8 checks") as raised:
        checks.require(LooksAtItsNumbers(), ECHO, rounds=4)
    assert isinstance(raised.value, AssertionError)
    assert [check.name for check in raised.value.failed] == ["ask/tell identity", "traceable", "batching"]
    assert all(f"- {check.name}: {check.evidence}" in str(raised.value) for check in raised.value.failed)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="`rounds` must be a whole number >= 2, but got rounds=1"):
        checks.conformance(EXPLORER, ECHO, rounds=1)
    with pytest.raises(ValueError, match="`seed`"):
        checks.require(EXPLORER, ECHO, seed=-1)
    with pytest.raises(TypeError, match=r"`environment` must have sample\(key, theta, n\), but got 3"):
        checks.conformance(EXPLORER, 3)


def test_checking_leaves_global_random_states_alone():
    before = np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    failed(LooksAtItsNumbers())
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before  # noqa: NPY002
