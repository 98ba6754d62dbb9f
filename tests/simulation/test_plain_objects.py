"""Your own plain classes as environments, methods, sets and parts of methods."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.pytrees import pytree


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
    """Your own method: walks downhill on the frozen loss, one deployment a round, and knows no constraints."""

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


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # the world only samples
@pytest.mark.slow
def test_plain_environment_method_and_set_run_beside_the_built_in_ones():
    problem = pf.Problem(squared, Disk())
    runs = pf.simulate(
        {"mine": Hill(problem), "gradient": pf.repeated_gradient(problem, samples=3)},
        Plain(0.4),
        rounds=300,
        realizations=3,
    )
    # The stable point of the frozen descent is 1/(1 − 0.4) = 1.67 in each coordinate, cut by the disk to √2.
    np.testing.assert_allclose(runs.decision.sel({"algorithm": "mine"}).isel(t=-1), np.sqrt(2), atol=0.1)
    assert np.all(runs.regret_error > 0)  # the regret is sampled
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
    with pytest.raises(ValueError, match="must have the measured constraints"):
        pf.simulate({"a": pf.apda(problem)}, Plain3(), rounds=2, problem=pf.Problem(problem.loss, problem.decisions))


class Plain3:
    def sample(self, key, theta, n):
        return jax.random.normal(key, (n, 3))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # the world only samples
def test_plain_environments_run_in_other_processes():
    problem = pf.Problem(lambda t, z: 0.5 * jnp.sum((t - z) ** 2), pf.Box([0, 0], [5, 5]))
    settings = {"rounds": 20, "realizations": 4, "batch": 2, "progress": False}
    here = pf.simulate({"a": pf.repeated_gradient(problem)}, Plain(0.3), **settings)
    there = pf.simulate({"a": pf.repeated_gradient(problem)}, Plain(0.3), workers=2, **settings)
    np.testing.assert_array_equal(here.decision, there.decision)


class Tight:
    """Your own exploration, a plain class."""

    def normals(self, dimension):
        return dimension

    def decisions(self, normals, theta):
        return jnp.stack([theta, theta + 0.1 * normals])


class Known:
    """Your own estimator: the gradient of ½‖θ‖² whatever happens."""

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


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # the world only samples
@pytest.mark.slow
def test_your_own_parts_may_be_plain_classes():
    problem = pf.Problem(lambda t, z: 0.5 * jnp.sum((t - z) ** 2), pf.Box([-5, -5], [5, 5]))
    method = dataclasses.replace(pf.apda(problem, exploration=Tight(), start=[1.0, 2.0], step=0.5), estimator=Known())
    data = pf.simulate({"own": method}, Plain(0.3), rounds=20)
    np.testing.assert_allclose(data.decision.isel(t=-1).squeeze(), np.array([1.0, 2.0]) * 0.5**19)


@pytest.mark.slow
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
