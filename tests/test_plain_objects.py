"""A user's own plain classes: environments, methods, sets, and what the reference optimum makes of unusual problems."""

import dataclasses
import functools
import os
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.pytrees import pytree
from performative.provenance import describe


class Plain:
    """Neither a dataclass nor a pytree."""

    def __init__(self, pull):
        self.pull = pull

    def sample(self, key, theta, n):
        return 1.0 + self.pull * theta + 0.1 * jax.random.normal(key, (n, theta.shape[0]))


@pytree()
class HillState:
    round: object
    decision: object
    multipliers: object


class Hill:
    """A method of one's own: walks downhill on the frozen loss, one deployment a round, and knows no constraints."""

    def __init__(self, problem):
        self.problem = problem

    def init(self, key):
        with precise():
            return HillState(jnp.asarray(1), jnp.zeros(2), jnp.zeros(0))

    def ask(self, state, key):
        return state.decision[None]

    def wanted(self, state):
        return 3

    def tell(self, state, decisions, samples):
        with precise():
            gradient = jax.grad(lambda t: jnp.mean(jax.vmap(lambda z: self.problem.loss(t, z))(samples[0])))(
                state.decision
            )
            moved = self.problem.decisions.project(state.decision - 0.1 * gradient)
            return HillState(state.round + 1, moved, state.multipliers)


class Disk(pf.sets.DecisionSet):
    dimension = 2

    @property
    def radius(self):
        return 2.0

    def project(self, point):
        point = jnp.asarray(point)
        return point * jnp.minimum(1.0, 2.0 / jnp.maximum(jnp.linalg.norm(point), 1e-30))

    def declare(self, variable):
        import cvxpy as cp

        return [cp.norm(variable, 2) <= 2.0]


def squared(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


def test_plain_environment_method_and_set_run_beside_the_built_in_ones():
    problem = pf.Problem(squared, Disk())
    runs = pf.simulate(
        {"mine": Hill(problem), "apda": pf.apda(problem, warmup=10)}, Plain(0.4), rounds=300, realizations=3
    )
    # The stable point of the frozen descent is 1/(1 − 0.4) = 1.67 in each coordinate, cut by the disk to √2.
    np.testing.assert_allclose(runs.decision.sel({"algorithm": "mine"}).isel(t=-1), np.sqrt(2), atol=0.1)
    assert np.all(np.isnan(runs.regret))
    world = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [0.01, 0.01]), 0.4 * np.eye(2))
    measured = pf.simulate({"mine": Hill(problem)}, world, rounds=50, realizations=2)
    assert np.all(measured.regret > 0)
    np.testing.assert_allclose(pf.performative_optimum(problem, world).decision, np.sqrt(2), atol=1e-6)


def test_methods_that_know_different_problems_need_to_be_told_which_counts(small):
    problem, world, _ = small
    other = pf.Problem(
        problem.loss, problem.decisions, [pf.constraints.Linear(np.ones(3), 0.1, name="budget"), problem.constraints[1]]
    )
    with pytest.raises(ValueError, match="must know the same problem"):
        pf.simulate({"a": pf.apda(problem), "b": pf.apda(other)}, world, rounds=2)
    with pytest.raises(ValueError, match="must have the constraints"):
        pf.simulate({"a": pf.apda(problem)}, Plain3(), rounds=2, problem=pf.Problem(problem.loss, problem.decisions))


class Plain3:
    def sample(self, key, theta, n):
        return jax.random.normal(key, (n, 3))


def test_functions_that_compute_something_else_are_described_differently():
    def make(c):
        return lambda t: c / jnp.sqrt(t)

    assert describe(make(0.1)) == describe(make(0.1))
    assert describe(make(0.1)) != describe(make(0.2))
    assert describe(lambda t: 2 * t) != describe(lambda t: 3 * t)


def test_a_step_must_be_traceable_and_stay_positive(small):
    problem, _, _ = small
    with pytest.raises(TypeError, match=r"`step` must be a function of the round written in jax\.numpy"):
        pf.apda(problem, step=lambda t: 0.1 if t < 3 else 0.01)
    with pytest.raises(ValueError, match=r"`step\(t\)` must be a positive number for every round t, but at t=10 "):
        pf.apda(problem, step=lambda t: 0.1 * (4.0 - t))


def test_exploration_without_probes_is_refused_at_the_door(small):
    problem, world, _ = small
    with pytest.raises(ValueError, match="must be the pair"):
        pf.simulate({"a": pf.apda(problem, exploration=pf.Alone())}, world, rounds=2)


@pytest.mark.parametrize("base", [pf.Empirical(np.arange(11.0)), pf.Gaussian([5.0], [4.0])])
def test_a_loss_with_a_kink_has_its_optimum_at_the_median(base):
    """E|z − θ| with z = z₀ + aθ: the optimum is where (1 − a)θ is the median of z₀."""
    world = pf.LocationFamily(base, [[0.2]])
    problem = pf.Problem(lambda theta, z: jnp.sum(jnp.abs(z - theta)), pf.Box([-20.0], [20.0]))
    optimum = pf.performative_optimum(problem, world)
    np.testing.assert_allclose(optimum.decision, [5.0 / 0.8], atol=2e-3)  # the Gaussian's grid is 18·2/4096 wide
    stable = pf.stable_point(problem, world)
    np.testing.assert_allclose(stable.decision, [5.0 / 0.8], atol=5e-3)


def test_a_feasible_set_away_from_the_start_is_found():
    """g = 1 − θ² has no slope at 0: a search from there alone would call the problem infeasible."""
    world = pf.LocationFamily(pf.Gaussian([0.5], [1.0]), [[0.0]])
    problem = pf.Problem(squared, pf.Box([-3.0], [3.0]), lambda theta: 1.0 - theta**2)
    optimum = pf.performative_optimum(problem, world)
    assert optimum.local
    assert abs(optimum.decision[0]) == pytest.approx(1.0, abs=1e-5)
    quartic = pf.Problem(squared, pf.Box([-3.0], [3.0]), lambda theta: 1.0 - theta**4)
    assert pf.performative_optimum(quartic, world, start=[-2.0]).local


def test_a_norm_is_not_taken_for_smooth():
    """√(θ²) − θ vanishes for positive θ: no probe may conclude that the data's covariance does not matter."""
    world = pf.LocationFamily(pf.Gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]), np.zeros((2, 1)))
    problem = pf.Problem(lambda t, z: z[0] * z[1] * (jnp.linalg.norm(t) - t[0]) + z[0], pf.Box([-2.0], [2.0]))
    assert pf.performative_risk(problem, world, [-1.0]) == pytest.approx(1.0)


@pytest.mark.slow
def test_recycling_helps_with_a_small_warm_up_and_many_samples_a_deployment(small):
    problem, world, _ = small
    runs = pf.simulate(
        {
            "plain": pf.apda(problem, warmup=5, samples=20),
            "recycle": pf.apda(problem, warmup=5, samples=20, recycle=True),
        },
        world,
        rounds=3000,
        realizations=10,
    )
    final = runs.deviation.mean("realization").isel(t=-1)
    assert float(final.sel({"algorithm": "recycle"})) < 0.2 * float(final.sel({"algorithm": "plain"}))


CONSTANT = 1.0
TABLE = {"a": 1.0}
NAMES = types.SimpleNamespace(c=1.0)
ARRAY = jnp.ones(3)


def helper(t):
    return 2.0 * t


class Holder:
    def __init__(self, c):
        self.c = c

    def loss(self, t):
        return self.c * t


def changed_by(monkeypatch, function, **names):
    """Whether the description of a function changes with globals of its module."""
    before = describe(function)
    for name, value in names.items():
        monkeypatch.setitem(globals(), name, value)
    return describe(function) != before


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda t: CONSTANT * t, {"CONSTANT": 2.0}),
        (lambda t: TABLE["a"] * t, {"TABLE": {"a": 2.0}}),
        (lambda t: NAMES.c * t, {"NAMES": types.SimpleNamespace(c=2.0)}),
        (lambda t: ARRAY * t, {"ARRAY": jnp.zeros(3)}),
        (lambda t: helper(t), {"helper": lambda t: 3.0 * t}),
        (lambda t: [CONSTANT * s for s in t], {"CONSTANT": 2.0}),
    ],
    ids=["number", "table", "namespace", "array", "function", "nested"],
)
def test_what_a_function_finds_by_name_is_part_of_its_description(monkeypatch, function, names):
    assert describe(function) == describe(function)
    assert changed_by(monkeypatch, function, **names)


def test_keyword_defaults_and_owners_are_part_of_a_description():
    def make(value):
        def loss(t, *, scale=value):
            return scale * t

        return loss

    assert describe(make(1.0)) == describe(make(1.0))
    assert describe(make(1.0)) != describe(make(2.0))
    assert describe(Holder(1.0).loss) == describe(Holder(1.0).loss)
    assert describe(Holder(1.0).loss) != describe(Holder(2.0).loss)


def test_descriptions_do_not_depend_on_the_process():
    program = (
        "import json; from performative.provenance import describe\n"
        "class World:\n    def __init__(self): self.pull = 2.0\n    def sample(self, key, theta, n): return theta\n"
        "def loss(t, z): return t if z in {'a', 'b', 'c'} else helper(z)\n"
        "def helper(z): return loss(z, 'a')\n"
        "print(json.dumps([describe(World()), describe(loss)]))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert "0x" not in printed.pop()


def test_plain_environments_run_in_other_processes():
    problem = pf.Problem(lambda t, z: 0.5 * jnp.sum((t - z) ** 2), pf.Box([0, 0], [5, 5]))
    settings = {"rounds": 20, "realizations": 4, "batch": 2, "progress": False}
    here = pf.simulate({"a": pf.apda(problem, warmup=5)}, Plain(0.3), **settings)
    there = pf.simulate({"a": pf.apda(problem, warmup=5)}, Plain(0.3), workers=2, **settings)
    np.testing.assert_array_equal(here.decision, there.decision)


class Tight:
    """An exploration of one's own: a plain class."""

    def normals(self, dimension):
        return dimension

    def decisions(self, normals, theta):
        return jnp.stack([theta, theta + 0.1 * normals])


class Known:
    """An estimator of one's own: the gradient of ½‖θ‖² whatever happens."""

    def init(self, problem, key):
        return ()

    def opening(self, belief):
        return 0

    def update(self, problem, belief, decisions, samples, t):
        return belief

    def check(self, belief, decisions, samples):
        pass

    def gradient(self, problem, belief, theta):
        return theta


def test_parts_of_ones_own_may_be_plain_classes():
    problem = pf.Problem(lambda t, z: 0.5 * jnp.sum((t - z) ** 2), pf.Box([-5, -5], [5, 5]))
    method = dataclasses.replace(pf.apda(problem, exploration=Tight(), start=[1.0, 2.0], step=0.5), estimator=Known())
    data = pf.simulate({"own": method}, Plain(0.3), rounds=20)
    np.testing.assert_allclose(data.decision.isel(t=-1).squeeze(), np.array([1.0, 2.0]) * 0.5**19)


def test_a_set_without_a_dimension_learns_it_from_any_method():
    problem = pf.Problem(lambda t, z: 0.5 * jnp.sum((t - z) ** 2), pf.Box(0, 5))
    effect = 0.3 * np.eye(2)
    world = pf.LocationFamily(pf.Gaussian([1, 2], np.eye(2)), effect)
    data = pf.simulate(
        {"apda": pf.apda(problem, warmup=5), "oracle": pf.oracle(problem, effect=effect, warmup=5)}, world, rounds=5
    )
    assert data.sizes["coordinate"] == 2


class Generous(Plain):
    def sample(self, key, theta, n):
        return super().sample(key, theta, n + 7)


def test_an_environment_must_return_as_many_samples_as_were_asked_for():
    problem = pf.Problem(lambda t, z: 0.5 * jnp.sum((t - z) ** 2), pf.Box([0, 0], [5, 5]))
    with pytest.raises(ValueError, match=r"must return samples \(n, k\), but returned \(12, 2\) for n=5"):
        pf.simulate({"a": pf.apda(problem, warmup=5)}, Generous(0.3), rounds=2)


def test_decorators_are_part_of_a_description():
    def scaled(c):
        return functools.wraps(helper)(lambda t: c * helper(t))

    assert describe(scaled(1.0)) == describe(scaled(1.0))
    assert describe(scaled(1.0)) != describe(scaled(-7.0))
    assert describe(jax.vmap(helper, in_axes=0)) != describe(jax.vmap(helper, in_axes=1))
    assert describe(jax.jit(helper)) == describe(jax.jit(helper))
