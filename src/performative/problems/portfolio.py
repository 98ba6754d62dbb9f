"""Multi-asset portfolio (the paper's second experiment).

Ten assets. Investing moves returns, z = z̄ + Aθ + noise; weights lie in [0, 0.3] and must respect a budget, a bound on the
bid-ask spread (liquidity) and a bound on the variance (risk), whose covariance the investor estimates from the warm-up.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from performative.constraints import Linear, Quadratic
from performative.environments import Gaussian, LocationFamily, Normal
from performative.numerics.arrays import Floats
from performative.numerics.precision import precise
from performative.problem import Problem
from performative.problems.case import Case, normal_density
from performative.problems.instance import WARMUP, Instance, gaussian_base, random_covariance, random_source
from performative.sets import Box
from performative.simulation.engine import first_answer
from performative.truth.optimum import performative_optimum
from performative.truth.stable_point import stable_point
from performative.validation import MOST_SEED, positive, whole

NAME = "portfolio"
TITLE = "Multi-asset portfolio"
ASSETS = 10
MOST = 0.3
SPREAD = 2.0
RISK = 0.01


def loss(xi: Array, theta: Array, z: Array) -> Array:
    """−zᵀθ + ξ‖θ‖²."""
    return -jnp.sum(z * theta) + xi * jnp.sum(theta * theta)


def instance(seed: int, realization: int, sensitivity: float, warmup: int) -> Instance:
    """One random instance; A and z̄ depend on the sensitivity ε, and ξ = ε."""
    random = random_source(seed, realization)
    covariance = random_covariance(random, ASSETS, 1 / ASSETS)
    effect = random.normal(size=(ASSETS, ASSETS))
    effect *= sensitivity / np.linalg.norm(effect, 2)
    mean = 10 * sensitivity + random.uniform(size=ASSETS)
    mean *= 2 / np.linalg.norm(mean)
    spread = random.uniform(2.0, 4.0, size=ASSETS)
    start = random.uniform(0.0, MOST, size=ASSETS)

    environment = LocationFamily(Gaussian(mean, covariance), effect)
    with precise():
        observed = np.asarray(first_answer(environment, jnp.zeros(ASSETS), seed, realization, warmup))
    true, estimated = _constraints(spread, covariance), _constraints(spread, np.cov(observed.T))
    truth = _problem(sensitivity, true)
    return Instance(
        problem=_problem(sensitivity, estimated),
        truth=truth,
        environment=environment,
        optimum=performative_optimum(truth, environment),
        start=_feasible(estimated, start),
    )


Constraints = tuple[Linear, Linear, Quadratic]
INSIDE = 1.0 + 1e-12
"""How far inside the constraints a start is that would break them."""


def _constraints(spread: Floats, covariance: Floats) -> Constraints:
    """Budget, liquidity and risk."""
    return (
        Linear(np.ones(ASSETS), 1.0, name="budget"),
        Linear(spread, SPREAD, name="liquidity"),
        Quadratic(covariance, RISK, name="risk"),
    )


def _problem(sensitivity: float, constraints: Constraints) -> Problem:
    return Problem(Partial(loss, np.float64(sensitivity)), Box(np.zeros(ASSETS), np.full(ASSETS, MOST)), constraints)


def _feasible(constraints: Constraints, start: Floats) -> Floats:
    """The point scaled down into the feasible set: each constraint is monotone along the ray.

    It ends a hair inside, so that it stays feasible whatever the order in which a constraint is summed.
    """
    *linear, risk = constraints
    shares = [float((item.coefficients[0] @ start) / item.bound[0]) for item in linear]
    return start / max(1.0, INSIDE * max(*shares, float(np.sqrt(start @ risk.matrix @ start / risk.bound))))


def make(sensitivity: float = 1.0, seed: int = 0, realization: int = 0) -> Case:
    """Ten assets, z ∼ N(z̄ + Aθ, Σ), ℓ = −zᵀθ + ξ‖θ‖²; a budget, bounds on the spread and on θᵀΣθ, weights in [0, 0.3].

        PR(θ) = −z̄ᵀθ − θᵀAθ + ξ‖θ‖²,

    a quadratic that is convex since ξ = ‖A‖. The constraints are the true ones, not those estimated from a warm-up. Under a
    quadratic constraint neither point has a closed form: the optimum is the experiment's, by `performative_optimum`, and the
    stable point `stable_point`'s; the tests compare them with scipy.
    """
    example = instance(
        whole("seed", seed, 0, MOST_SEED),
        whole("realization", realization, 0),
        positive("sensitivity", sensitivity),
        WARMUP,
    )
    environment, base = example.environment, gaussian_base(example)
    mean, covariance = np.asarray(base.mean), np.asarray(base.covariance)
    effect, xi = np.asarray(environment.effect), float(sensitivity)

    def risk(theta: Floats) -> float:
        return float(-(mean + effect @ theta) @ theta + xi * theta @ theta)

    return Case(
        name="portfolio",
        title=TITLE,
        reference="Yan and Cao 2023, Zero-Regret Performative Prediction Under Inequality Constraints, second experiment",
        problem=example.truth,
        environment=environment,
        risk=risk,
        optimum=example.optimum,
        stable=stable_point(example.truth, environment),
        family=Normal(covariance),
        density=normal_density(mean, effect, covariance),
        known_effect=effect,
    )
