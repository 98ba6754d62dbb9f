"""The pointwise lemma behind the regret of Safe APDA, on the decisions that it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.losses import Revenue
from performative.methods.safe_primal_dual import FIRST_RADIUS

EFFECT = np.array([[-1.0, 0.3], [0.2, -1.5]])
MEAN = np.array([3.0, 4.0])
UPPER = np.array([1.0, 2.0])


def loss(theta, z):
    return -jnp.sum(z * theta) + 0.5 * jnp.sum(theta * theta)


def risk(theta):
    return -(MEAN + EFFECT @ theta) @ theta + 0.5 * theta @ theta


HESSIAN = np.eye(2) - EFFECT - EFFECT.T


def distance_from_normal_cone(theta):
    """How far −∇PR(θ) is from the normal cone of the box [0, UPPER] at θ."""
    down = -(HESSIAN @ theta - MEAN)
    held = np.where(theta >= UPPER - 1e-12, np.maximum(down, 0.0), np.where(theta <= 1e-12, np.minimum(down, 0.0), 0.0))
    return np.linalg.norm(down - held)


@pytest.mark.parametrize("samples", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_the_excess_risk_of_every_decision_is_bounded_by_the_error_of_its_gradient(samples):
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], UPPER))
    world = pf.LocationFamily(pf.Gaussian(MEAN, np.eye(2)), effect=EFFECT)
    method = pf.safe_apda(problem, start=[0.2, 0.2], samples=samples)
    best = pf.performative_optimum(problem, world).decision
    strongly = np.linalg.eigvalsh(HESSIAN)[0]
    key = jax.random.key(0)
    state = method.init(key)
    bounds = []
    for _ in range(60):
        key, asking, answering = jax.random.split(key, 3)
        asked = method.ask(state, asking)
        with jax.enable_x64(True):
            drawn = np.asarray(world.sample(answering, jnp.asarray(asked[0]), samples))
        state = method.tell(state, asked, drawn[None])
        theta = np.asarray(state.decision)
        excess = risk(theta) - risk(np.asarray(best))
        bound = distance_from_normal_cone(theta) ** 2 / (2.0 * strongly)
        assert excess <= bound + 1e-12
        bounds.append(bound)
    assert bounds[-1] < 0.1 * bounds[0]  # the bound is about decisions that improve, not about one


def test_a_step_goes_as_far_as_it_is_sure_to_pay():
    """Who orders nothing and sees demand around 2 is sure to sell more; what a higher price does to demand, nobody knows yet."""
    demand = 2.0 + 0.5 * np.random.default_rng(0).normal(size=(1, 50, 1))
    newsvendor = pf.problems.get("newsvendor").problem
    ordering, pricing = (
        pf.safe_apda(problem, start=start, samples=50)
        for problem, start in ((newsvendor, [0.0]), (pf.Problem(Revenue(), pf.Box([0.0], [6.0])), [1.0]))
    )
    orders, prices = (
        method.tell(method.init(jax.random.key(0)), np.asarray(method.start)[None], demand).decision
        for method in (ordering, pricing)
    )
    assert 1.4 * FIRST_RADIUS * 6.0 < float(orders[0]) < 2.0
    assert 1.0 < float(prices[0]) <= 1.0 + (FIRST_RADIUS + 1e-9) * 6.0
