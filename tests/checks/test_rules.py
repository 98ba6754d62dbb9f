"""Each rule is failed by a method that breaks it, and by that rule alone."""

import jax.numpy as jnp
import pytest
from broken_methods import (
    AsksAnew,
    AsksForHalfASample,
    AsksForOneRow,
    CentersTheData,
    ClaimsTheCap,
    ClaimsTooMuch,
    CountsTellings,
    CountsVisits,
    DecidesDifferently,
    Diverges,
    DrawsAndForgets,
    DrawsOnceCompiled,
    HasNoMultipliers,
    HasOneSeed,
    HasTooManyMultipliers,
    KeepsAList,
    KeepsALog,
    KeepsALogWhenLive,
    LearnsAnew,
    LooksAtItsNumbers,
    MixesRealizations,
    OwesNothing,
    PlansWhatItDoesNotDeploy,
    StartsAnew,
    StartsLate,
    StartsOutside,
    StartsSomewhere,
    WidensItsCount,
)
from plain_methods import Planner, Walker, cost, failed, one_check

import performative as pf
from performative import checks

SIMULATED = {"ask/tell identity", "batching"}
"""The checks that compare with a simulation; what cannot be simulated fails them too."""


BROKEN = {  # the checks that a method fails, and what the first of them says
    OwesNothing: ({"protocol"}, "`multipliers >= 0` must hold, but got -1 in round 2"),
    DrawsAndForgets: ({"seeding"}, "random state of numpy must not be touched"),
    CountsVisits: ({"purity"}, "`ask` must not change the state, but did in round 1"),
    DecidesDifferently: ({"ask/tell identity"}, "must agree to 1e-09, but differ by"),
    StartsOutside: ({"feasibility"}, "must lie in the set, but is [-0.1 -0.1] in round 1"),
    KeepsALogWhenLive: (
        {"bounded state"},
        "keep their shapes and types, but take 96 bytes after 4 rounds and 160 bytes",
    ),
    LooksAtItsNumbers: ({"traceable"} | SIMULATED, "ConcretizationTypeError"),
    MixesRealizations: ({"batching"}, "3 realizations together and alone must agree to 1e-09, but differ by"),
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_method_that_breaks_a_rule_fails_its_check_and_no_other(broken):
    names, evidence = BROKEN[broken]
    failures = failed(broken())
    assert set(failures) == names, failures
    assert evidence in next(iter(failures.values()))


def test_every_check_is_failed_by_a_method_that_fails_no_other():
    alone = set().union(*(names for names, _ in BROKEN.values() if len(names) == 1))
    assert alone | {"traceable"} == set(checks.CHECKS)  # what cannot be traced cannot be simulated either


@pytest.mark.parametrize(
    ("name", "broken", "evidence"),
    [
        ("protocol", StartsLate, "the first round must be 0 or 1, but got 7"),
        ("protocol", AsksForHalfASample, "`wanted` must be a whole number >= 1, but got 0.5"),
        ("protocol", AsksForOneRow, "`ask` must return (b, 2), but returned (2,)"),
        ("protocol", HasNoMultipliers, "the state must have `multipliers`, but Bare does not"),
        ("protocol", HasTooManyMultipliers, "`multipliers` must have shape (1,), but got (2,) in round 1"),
        ("protocol", Diverges, "`decision` must be finite, but got [inf inf] in round 2"),
        ("seeding", StartsSomewhere, "the global random state of Python must not be touched"),
        ("seeding", HasOneSeed, "`ask` must explore with its key, but every round deploys the decision plus"),
        ("seeding", PlansWhatItDoesNotDeploy, "`ask` must deploy what was planned, but its key changes it"),
        ("seeding", StartsAnew, "`init` must give the same bits for the same key"),
        ("seeding", AsksAnew, "`ask` must give the same bits for the same key"),
        ("seeding", LearnsAnew, "the same bits for the same seed, but differs in round 2"),
        ("seeding", DrawsOnceCompiled, "the global random state of numpy must not be touched"),
        ("purity", CountsTellings, "`tell` must not change the state, but did in round 1"),
        ("purity", CentersTheData, "`tell` must not change `samples`, but did in round 1"),
        (
            "purity",
            LearnsAnew,
            "two identical calls of `tell` must give the same state, but the states differ in round 1",
        ),
        ("bounded state", KeepsALog, "96 bytes after 4 rounds and 160 bytes after 8"),
        ("bounded state", KeepsAList, "64 bytes after 4 rounds and 96 bytes after 8"),
        ("bounded state", WidensItsCount, "36 bytes after 4 rounds and 36 bytes after 8"),
        ("feasibility", ClaimsTooMuch, "a deployment must lie in the set"),
        ("feasibility", ClaimsTheCap, "`g <= 1e-09` must hold at a deployment"),
    ],
)
def test_other_ways_to_break_a_rule_fail_its_check(name, broken, evidence):
    check = one_check(name, broken())
    assert not check.passed
    assert evidence in check.evidence


class Rounds(Walker):
    """It deploys its decision up to rounding."""

    def ask(self, state, key):
        return (state.decision + 3e-17)[None]


@pytest.mark.parametrize("method", [Planner, Rounds])
def test_a_method_that_plans_its_probes_or_makes_none_is_not_taken_for_one_with_a_fixed_key(method):
    assert failed(method()) == {}


def test_a_dimension_that_only_the_environment_knows_is_taken_from_it():
    method = pf.repeated_gradient(pf.Problem(cost, pf.Box(0.0, 1.0), lambda theta: jnp.sum(theta) - 0.3))
    assert method.problem.dimension is None
    check = one_check("protocol", method)
    assert check.passed
    assert "d = 2, m = 1" in check.evidence
