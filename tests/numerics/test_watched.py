"""A sweep over a global, a closure or an attribute comes out right everywhere, and a change under a problem is refused."""

import dataclasses
import sys

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from plain_methods import Walker

import performative as pf

SCALE = 1.0
LIMIT = 4.0
ME = sys.modules[__name__]
MARKET = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
BOX = pf.Box([0.0], [5.0])


def scaled(x):
    return SCALE * x


@jax.jit
def compiled(x):
    return SCALE * x


def added(_, x):
    return x * SCALE


def direct(price, demand):
    return -SCALE * jnp.sum(price * demand)


def called(price, demand):
    return -jnp.sum(price * scaled(demand))


def through_jit(price, demand):
    return -jnp.sum(price * compiled(demand))


def through_loop(price, demand):
    return -jnp.sum(price * lax.fori_loop(0, 1, added, demand))


def tracking(target, z):
    return 0.5 * jnp.sum((target - SCALE * z) ** 2)


class Seller:
    def __init__(self, scale):
        self.scale = scale

    def loss(self, price, demand):
        return -self.scale * jnp.sum(price * demand)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Priced:
    def __call__(self, price, demand):
        return -SCALE * jnp.sum(price * demand)


def risk_of(loss):
    return pf.performative_risk(pf.Problem(loss, BOX), MARKET, [1.0])


@pytest.mark.parametrize("loss", [direct, called, through_jit, through_loop, Priced()])
def test_a_new_problem_sees_new_values(monkeypatch, loss):
    risks = []
    for scale in (1.0, 100.0, 1.0, 7.0):
        monkeypatch.setattr(ME, "SCALE", scale)
        risks.append(risk_of(loss))
    assert risks == pytest.approx([-3.0, -300.0, -3.0, -21.0], rel=1e-12)


def test_a_fresh_loss_sees_new_values_of_what_it_calls(monkeypatch):
    risks = []
    for scale in (1.0, 100.0):
        monkeypatch.setattr(ME, "SCALE", scale)
        risks.append(risk_of(lambda price, demand: -jnp.sum(price * compiled(demand))))
    assert risks == [-3.0, -300.0]


def test_attributes_and_closures_are_part_of_a_loss():
    seller = Seller(1.0)
    first = risk_of(seller.loss)
    seller.scale = 100.0
    assert (first, risk_of(seller.loss)) == (-3.0, -300.0)
    numbers = np.array([1.0])

    def loss(price, demand):
        return -numbers[0] * jnp.sum(price * demand)

    first = risk_of(loss)
    numbers[0] = 100.0
    assert (first, risk_of(loss)) == (-3.0, -300.0)


@pytest.mark.slow
def test_a_sweep_over_a_global_comes_out_right_everywhere(monkeypatch):
    swept, stable = [], []
    for scale in (1.0, 3.0):
        monkeypatch.setattr(ME, "SCALE", scale)
        problem = pf.Problem(direct, BOX)
        method = pf.apda(problem, warmup=5, step=0.01)
        stable.append(pf.stable_point(pf.Problem(tracking, BOX), MARKET).decision[0])
        runs = pf.simulate({"apda": method}, MARKET, rounds=3, realizations=2)
        state = method.init(jax.random.key(0))
        state = method.tell(state, method.ask(state, jax.random.key(1)), np.full((1, 5, 1), 4.0))
        state = method.tell(state, method.ask(state, jax.random.key(1)), np.full((2, 1, 1), 4.0))
        swept.append(
            [
                float(pf.performative_optimum(problem, MARKET).risk),
                float(runs.regret.sel(t=1).mean()),
                float(state.decision[0]),
            ]
        )
    np.testing.assert_allclose(np.divide(*swept[::-1]), 3.0, rtol=1e-6)
    np.testing.assert_allclose(stable, [2.0, 3.0], rtol=1e-6)  # θ = scale·(4 − θ)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # the world only samples
def test_a_sweep_of_what_a_world_of_yours_reads_comes_out_right(monkeypatch):
    class World:
        offset = 0.0

        def sample(self, key, theta, n):
            return jnp.full((n, 1), SCALE + self.offset) - theta

    problem, world = pf.Problem(lambda price, demand: 0.5 * jnp.sum((price - demand) ** 2), BOX), World()
    method = pf.repeated_gradient(problem, step=0.5)

    def decision():
        return float(pf.simulate({"m": method}, world, rounds=2, realizations=1).decision.isel(t=-1).squeeze())

    first = decision()
    world.offset = 1.0
    second = decision()
    monkeypatch.setattr(ME, "SCALE", 3.0)
    assert (first, second, decision()) == (0.5, 1.0, 2.0)


def test_a_change_under_a_problem_is_refused(monkeypatch, tmp_path):
    problem = pf.Problem(direct, BOX, lambda price: price - LIMIT)
    method = pf.apda(problem, warmup=5)
    state = method.init(jax.random.key(0))
    study = pf.Study.create(tmp_path / "s.db", "s", method)
    study.ask()
    uses = {
        "risk": lambda: pf.performative_risk(problem, MARKET, [1.0]),
        "optimum": lambda: pf.performative_optimum(problem, MARKET),
        "stable": lambda: pf.stable_point(problem, MARKET),
        "simulate": lambda: pf.simulate({"apda": method}, MARKET, rounds=2, realizations=1),
        "tell": lambda: method.tell(state, np.zeros((1, 1)), np.full((1, 5, 1), 4.0)),
        "study": lambda: study.tell(study.ask(), np.full((1, 5, 1), 4.0)),
        "g": lambda: problem.g([1.0]),
    }
    for name, value in {"SCALE": 100.0, "LIMIT": 1.0}.items():
        with monkeypatch.context() as patch:
            patch.setattr(ME, name, value)
            refused = {use for use in uses if use != "g" or name == "LIMIT"}
            for use in refused:
                with pytest.raises(
                    pf.ChangedFunction, match=rf"`{name}`, which `.*` reads, must stay .* is {value} now; make"
                ):
                    uses[use]()
    uses["tell"]()  # as they were: nothing to refuse
    uses["study"]()
    study.close()


def test_a_method_of_yours_that_changed_under_a_study_is_refused(tmp_path):
    method = Walker()
    with pf.Study.create(tmp_path / "s.db", "s", method) as study:
        deployment = study.ask()
        method.problem = pf.Problem(direct, pf.Box([0.0, 0.0], [5.0, 5.0]))
        with pytest.raises(pf.ChangedFunction, match="a method must stay as it was"):
            study.tell(deployment, np.ones((1, 1, 2)))


def test_reactions_parameters_and_steps_are_watched(monkeypatch):
    problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), BOX)

    def risk():
        world = pf.Reaction(pf.Gaussian([4.0], [0.25]), lambda price, z0: SCALE * z0 - price)
        family = pf.ParametricFamily(pf.Normal(0.25), lambda price: SCALE * 4.0 - price)
        return [pf.performative_risk(problem, one, [1.0]) for one in (world, family)], world

    first, world = risk()
    monkeypatch.setattr(ME, "SCALE", 2.0)
    assert (first, risk()[0]) == ([-3.0, -3.0], [-7.0, -7.0])
    with pytest.raises(pf.ChangedFunction, match="`SCALE`, which"):
        pf.performative_risk(problem, world, [1.0])


@pytest.mark.slow
def test_watched_functions_travel_to_other_processes(monkeypatch):
    scale = np.array([2.0])
    problem = pf.Problem(lambda price, demand: -SCALE * scale[0] * jnp.sum(price * demand), BOX)
    copy = cloudpickle.loads(cloudpickle.dumps(problem))
    assert pf.performative_risk(copy, MARKET, [1.0]) == -6.0
    runs = [
        pf.simulate({"m": pf.apda(problem, warmup=2)}, MARKET, rounds=2, realizations=2, batch=1, workers=workers)
        for workers in (1, 2)
    ]
    np.testing.assert_array_equal(*(run.decision.values for run in runs))


def test_a_value_that_another_process_reads_differently_is_refused(monkeypatch):
    """A module is imported again elsewhere, and what was changed in it here is not."""
    problem = pf.Problem(direct, BOX)
    packed = cloudpickle.dumps(problem)
    monkeypatch.setattr(ME, "SCALE", 5.0)
    with pytest.raises(pf.ChangedFunction, match=r"it was 1\.0 and is 5\.0 now"):
        pf.performative_risk(cloudpickle.loads(packed), MARKET, [1.0])
