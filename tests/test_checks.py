"""Conformance: every method passes every check, and each check is failed by a method that breaks its rule."""

import dataclasses
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import checks
from performative.checks import suite
from performative.checks import trial as trials
from performative.numerics import precision
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import standard_normal
from performative.validation import is_traced

EFFECT = np.array([[-1.5, 0.3], [0.2, -1.0]])
SIMULATED = {"ask/tell identity", "batching"}
"""The checks that compare with a simulation; what cannot be simulated fails them too."""


def revenue(prices, demand):
    return -jnp.sum(prices * demand)


@pytest.fixture(scope="module")
def market():
    """Two prices whose sum is capped: problem and environment."""
    problem = pf.Problem(revenue, pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], 0.5, name="cap")])
    return problem, pf.LocationFamily(pf.Gaussian([4.0, 5.0], 0.25 * np.eye(2)), EFFECT)


METHODS = {  # a method that is added to the library is added here
    "apda": lambda problem: pf.apda(problem, warmup=20),
    "apda, recycling": lambda problem: pf.apda(problem, warmup=20, recycle=True),
    "pd_ps": lambda problem: pf.pd_ps(problem, warmup=20),
    "oracle": lambda problem: pf.oracle(problem, warmup=20, effect=EFFECT),
    "safe_apda": pf.safe_apda,
    "repeated_gradient": pf.repeated_gradient,
    "repeated_minimization": lambda problem: pf.repeated_minimization(problem, samples=5),
    "two_stage": lambda problem: pf.two_stage(problem, stage=4, warmup=5),
    "perfgd": lambda problem: pf.perfgd(problem, family=pf.Normal(0.25 * np.ones(2)), memory=4),
    "score_gradient": lambda problem: pf.score_gradient(problem, log_density=density),
    "one_point": pf.one_point,
    "two_point": pf.two_point,
    "confidence_bounds": lambda problem: pf.confidence_bounds(problem, sensitivity=5.0, arms=11),
    "saddle": lambda problem: pf.saddle(problem, ascending=[1]),
}


def density(z, theta):
    return -2.0 * jnp.sum((z - jnp.array([4.0, 5.0]) - EFFECT @ theta) ** 2)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_the_library_passes_every_check(market, name):
    problem, environment = market
    checks.require(METHODS[name](problem), environment, rounds=8)


class Echo:
    """A world without noise of its own."""

    dimension = 2

    def sample(self, key, theta, n):
        return jnp.broadcast_to(1.0 - 0.5 * theta, (n, 2))


def cost(theta, z):
    return jnp.sum(theta**2) - jnp.sum(z * theta)


PROBLEM = pf.Problem(cost, pf.Box(0.0, 1.0), [pf.constraints.Linear([1.0, 1.0], 0.3, name="cap")])


@pytree()
class Place:
    round: object
    decision: object
    multipliers: object
    extra: object = None


class Walker:
    """A plain method that keeps every rule; those below break one each."""

    def __init__(self):
        self.problem = PROBLEM

    def init(self, key):
        return Place(jnp.ones((), int), jnp.array([0.1, 0.1]), jnp.zeros(1))

    def ask(self, state, key):
        return state.decision[None]

    def wanted(self, state):
        return 1

    def tell(self, state, decisions, samples):
        theta, lam = state.decision, state.multipliers
        gradient = 2.0 * theta - samples[0, 0] + self.problem.pullback(theta, lam)
        moved = self.problem.decisions.project(theta - 0.1 * gradient)
        return Place(state.round + 1, moved, jnp.maximum(lam + 0.1 * self.problem.g(theta), 0.0), state.extra)


class Explorer(Walker):
    """Another, whose deployments are random."""

    normals = 2

    def ask(self, state, key):
        return Explorer.decide(self, state, standard_normal(key, 2))

    def decide(self, state, normals):
        return (state.decision + 0.1 * normals)[None]


class OwesNothing(Walker):
    def tell(self, state, decisions, samples):
        return changed(super().tell(state, decisions, samples), multipliers=-jnp.ones(1))


class AsksForHalfASample(Walker):
    def wanted(self, state):
        return 0.5


class AsksForOneRow(Walker):
    def ask(self, state, key):
        return state.decision


@pytree()
class Bare:
    round: object
    decision: object


class HasNoMultipliers(Walker):
    def init(self, key):
        return Bare(jnp.ones((), int), jnp.zeros(2))


class HasTooManyMultipliers(Walker):
    def init(self, key):
        return changed(super().init(key), multipliers=jnp.zeros(2))


class Diverges(Walker):
    def tell(self, state, decisions, samples):
        return changed(super().tell(state, decisions, samples), decision=jnp.array([jnp.inf, jnp.inf]))


class StartsLate(Walker):
    def init(self, key):
        return changed(super().init(key), round=jnp.array(7))


class DrawsAndForgets(Walker):
    def ask(self, state, key):
        np.random.random()  # noqa: NPY002
        return super().ask(state, key)


class HasOneSeed(Walker):
    def ask(self, state, key):
        return super().ask(state, key)[:1] * 0.0 + state.decision + 0.1 * jax.random.normal(jax.random.key(0), (1, 2))


class StartsSomewhere(Walker):
    def init(self, key):
        return changed(super().init(key), decision=jnp.array([0.1, 0.1 + 1e-12 * random.random()]))


class Restless(Walker):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def calls_so_far(self):
        self.calls += 1
        return self.calls


class StartsAnew(Restless):
    def init(self, key):
        return changed(super().init(key), extra=jnp.array(self.calls_so_far()))


class AsksAnew(Restless):
    def ask(self, state, key):
        return super().ask(state, key) + self.calls_so_far()


class LearnsAnew(Restless):
    """Another answer at every call: a function neither of its keys nor of its state."""

    def tell(self, state, decisions, samples):
        told = super().tell(state, decisions, samples)
        return changed(told, decision=told.decision + 1e-13 * self.calls_so_far())


class DrawsOnceCompiled(Walker):
    def __init__(self):
        super().__init__()
        self.compiled = jax.jit(lambda theta: theta + 1e-12 * np.random.random())  # noqa: NPY002

    def tell(self, state, decisions, samples):
        told = super().tell(state, decisions, samples)
        return changed(told, decision=self.compiled(told.decision))


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Slate:
    """A state that can be written to."""

    round: object
    decision: object
    multipliers: object
    visits: object


class CountsVisits(Walker):
    def init(self, key):
        return Slate(jnp.ones((), int), jnp.array([0.1, 0.1]), jnp.zeros(1), jnp.zeros(()))

    def ask(self, state, key):
        state.visits = state.visits + 1.0
        return super().ask(state, key)

    def tell(self, state, decisions, samples):
        told = super().tell(changed(Place(0, 0, 0), **self.numbers(state)), decisions, samples)
        return Slate(told.round, told.decision, told.multipliers, state.visits)

    def numbers(self, state):
        return {"round": state.round, "decision": state.decision, "multipliers": state.multipliers}


class CountsTellings(CountsVisits):
    def ask(self, state, key):
        return Walker.ask(self, state, key)

    def tell(self, state, decisions, samples):
        state.visits = state.visits + 1.0
        return super().tell(state, decisions, samples)


class CentresTheData(Walker):
    def tell(self, state, decisions, samples):
        samples -= 1.0
        return super().tell(state, decisions, samples + 1.0)


class DecidesOtherwise(Explorer):
    def decide(self, state, normals):
        return (state.decision - 0.1 * normals)[None]


class StartsOutside(Walker):
    def init(self, key):
        return changed(super().init(key), decision=jnp.array([-0.1, -0.1]))


class ClaimsTooMuch(Walker):
    """Its deployments leave the set."""

    feasible = True

    def ask(self, state, key):
        return (state.decision - 1.0)[None]


class ClaimsTheCap(Explorer):
    """Its probes stay in the set, but break the constraint."""

    feasible = True

    def ask(self, state, key):
        return self.decide(state, standard_normal(key, 2))

    def decide(self, state, normals):
        return jnp.clip(state.decision + 0.3 * jnp.abs(normals), 0.0, 1.0)[None]


class KeepsALogWhenLive(Walker):
    def init(self, key):
        return changed(super().init(key), extra=jnp.zeros((0, 2)))

    def tell(self, state, decisions, samples):
        told = super().tell(state, decisions, samples)
        return told if is_traced(decisions) else changed(told, extra=jnp.concatenate([state.extra, samples[0]]))


class KeepsALog(KeepsALogWhenLive):
    def tell(self, state, decisions, samples):
        told = Walker.tell(self, state, decisions, samples)
        return changed(told, extra=jnp.concatenate([state.extra, samples[0]]))


class KeepsAList(Walker):
    def init(self, key):
        return changed(super().init(key), extra=())

    def tell(self, state, decisions, samples):
        return changed(super().tell(state, decisions, samples), extra=(*state.extra, samples[0, 0, 0]))


class WidensItsCount(Walker):
    """A whole number that becomes a fraction of the same size."""

    def init(self, key):
        return changed(super().init(key), extra=jnp.zeros((), np.int32))

    def tell(self, state, decisions, samples):
        told = super().tell(state, decisions, samples)
        return changed(told, extra=jnp.zeros((), np.int32 if state.round < 6 else np.float32))


class LooksAtItsNumbers(Walker):
    def tell(self, state, decisions, samples):
        told = super().tell(state, decisions, samples)
        return told if float(told.decision[0]) > 0.05 else changed(told, decision=state.decision)


def damped(theta):
    """A host function that is not told of realisations: its mean is over all of them."""
    return np.asarray(theta) * (1.0 - 0.1 * np.mean(theta))


class MixesRealisations(Explorer):
    def tell(self, state, decisions, samples):
        told = super().tell(state, decisions, samples)
        shape = jax.ShapeDtypeStruct((2,), np.float64)
        moved = jax.pure_callback(damped, shape, told.decision, vmap_method="expand_dims")
        return changed(told, decision=moved)


EXPLORER, ECHO = Explorer(), Echo()


def failed(method):
    return {check.name: check.evidence for check in checks.conformance(method, ECHO, rounds=8) if not check.passed}


@precision.in_float64
def one_check(name, method):
    return suite._checked(name, checks.CHECKS[name], trials.Trial(method, ECHO, rounds=8, seed=0))


def test_a_plain_method_passes_every_check_and_the_evidence_has_numbers():
    results = checks.conformance(EXPLORER, ECHO, rounds=8)
    assert [check.name for check in results] == list(checks.CHECKS)
    assert all(check.passed for check in results), results
    for check in results:
        assert "\n" not in check.evidence
        assert any(letter.isdigit() for letter in check.evidence), check


BROKEN = {  # the checks that a method fails, and what the first of them says
    OwesNothing: ({"protocol"}, "`multipliers >= 0` must hold, but got -1 in round 2"),
    DrawsAndForgets: ({"seeding"}, "random state of numpy must not be touched"),
    CountsVisits: ({"purity"}, "`ask` must not change the state, but did in round 1"),
    DecidesOtherwise: ({"ask/tell identity"}, "must agree to 1e-09, but differ by"),
    StartsOutside: ({"feasibility"}, "must lie in the set, but is [-0.1 -0.1] in round 1"),
    KeepsALogWhenLive: (
        {"bounded state"},
        "keep their shapes and types, but take 96 bytes after 4 rounds and 160 bytes",
    ),
    LooksAtItsNumbers: ({"traceable"} | SIMULATED, "ConcretizationTypeError"),
    MixesRealisations: ({"batching"}, "3 realisations together and alone must agree to 1e-09, but differ by"),
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_method_that_breaks_a_rule_fails_its_check_and_no_other(broken):
    names, evidence = BROKEN[broken]
    found = failed(broken())
    assert set(found) == names, found
    assert evidence in next(iter(found.values()))


def test_every_check_is_failed_by_a_method_that_fails_no_other():
    alone = set().union(*(names for names, _ in BROKEN.values() if len(names) == 1))
    assert alone | {"traceable"} == set(checks.CHECKS)  # what cannot be traced cannot be simulated either


@pytest.mark.parametrize(
    ("name", "broken", "evidence"),
    [
        ("protocol", StartsLate, "the first round must be 0 or 1, but got 7"),
        ("protocol", AsksForHalfASample, "`wanted` must be a whole number >= 1, but got 0.5"),
        ("protocol", AsksForOneRow, "`ask` must return (b, 2), but returned (2,)"),
        ("protocol", HasNoMultipliers, "the state must have `multipliers`, but Bare has not"),
        ("protocol", HasTooManyMultipliers, "`multipliers` must have shape (1,), but got (2,) in round 1"),
        ("protocol", Diverges, "`decision` must be finite, but got [inf inf] in round 2"),
        ("seeding", StartsSomewhere, "the global random state of Python must not be touched"),
        ("seeding", HasOneSeed, "`ask` must explore with its key, but every round deploys the decision plus"),
        ("seeding", StartsAnew, "`init` must give the same bits for the same key"),
        ("seeding", AsksAnew, "`ask` must give the same bits for the same key"),
        ("seeding", LearnsAnew, "the same bits for the same seed, but differs in round 2"),
        ("seeding", DrawsOnceCompiled, "the global random state of numpy must not be touched"),
        ("purity", CountsTellings, "`tell` must not change the state, but did in round 1"),
        ("purity", CentresTheData, "`tell` must not change `samples`, but did in round 1"),
        ("purity", LearnsAnew, "telling the same twice must give the same state, but differs in round 1"),
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


@pytest.mark.parametrize("thing", [object(), None, pf.Box(0.0, 1.0)])
def test_what_is_no_method_fails_every_check_and_raises_nothing(thing):
    found = failed(thing)
    assert set(found) == set(checks.CHECKS)
    assert found["protocol"] == "`init` must be a function of the method, but is not"
    assert found["seeding"].startswith("AttributeError: ")


def test_an_exception_is_evidence():
    found = failed(AsksForHalfASample())
    assert found["protocol"] == "`wanted` must be a whole number >= 1, but got 0.5"
    assert all(text.startswith("TypeError: ") for name, text in found.items() if name != "protocol")


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


def test_a_number_that_is_not_one_agrees_with_nothing():
    zeros, unknown = np.zeros((4, 2)), np.full((4, 2), np.nan)
    for first in (trials.Simulated(zeros, unknown), trials.Simulated(unknown, zeros)):
        for second in (first, trials.Simulated(zeros, zeros)):
            assert not first.gap(second) <= 1.0
            assert not second.gap(first) <= 1.0


def test_checking_leaves_global_random_states_alone():
    before = np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    failed(LooksAtItsNumbers())
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before  # noqa: NPY002


def test_what_is_compared_with_is_what_simulate_runs():
    every = range(1, 9)
    runs = pf.simulate({"method": EXPLORER}, trials.Unmeasured(ECHO), rounds=8, realizations=3, record=every).isel(
        algorithm=0
    )
    with precision.precise():
        trial = trials.Trial(EXPLORER, ECHO, rounds=8, seed=0)
        together, alone = trial.simulate((0, 1, 2)), trial.alone(1)
    np.testing.assert_allclose(np.moveaxis(together.decisions, -1, 0), runs.decision, rtol=1e-12)
    np.testing.assert_allclose(np.moveaxis(together.multipliers, -1, 0), runs.multipliers, rtol=1e-12)
    np.testing.assert_allclose(alone.decisions, runs.decision.sel(realization=1), rtol=1e-12)
    assert np.ptp(together.decisions, axis=-1).max() > 1e-3  # realisations differ
    assert together.multipliers.max() > 0.0


def test_a_dimension_that_only_the_environment_knows_is_taken_from_it():
    method = pf.repeated_gradient(pf.Problem(cost, pf.Box(0.0, 1.0), lambda theta: jnp.sum(theta) - 0.3))
    assert method.problem.dimension is None
    check = one_check("protocol", method)
    assert check.passed
    assert "d = 2, m = 1" in check.evidence
