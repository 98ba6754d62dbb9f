"""A price for two kinds of customers, whose shares move with it too: not a location family."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from scipy import special

from performative.environments import Mixture, Normal, ParametricFamily
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.problems.case import Case, kkt_point, log_density, stable_kkt_point
from performative.sets import Box
from performative.validation import positive

STEEPNESS, USUAL = 2.0, 1.0
"""Half of the customers are loyal at the usual price; the share falls at half the steepness there."""
LOYAL, SLOPE, OCCASIONAL = 3.0, 0.6, 1.0
"""The demand of loyal customers at price 0, its slope in the price, and the demand of the others."""
LEAST_PENALTY = 0.6
MOST = 3.0


def loss(penalty: Array, theta: Array, z: Array) -> Array:
    """−θz + ½ρθ²."""
    return -theta[0] * z[0] + 0.5 * penalty * theta[0] ** 2


def parameter(theta: Array) -> Array:
    """The shares of loyal and other customers, and the mean demand of either."""
    share = jax.nn.sigmoid(STEEPNESS * (USUAL - theta[0]))
    return jnp.stack([share, 1.0 - share, LOYAL - SLOPE * theta[0], jnp.full((), OCCASIONAL)])


def make(penalty: float = 0.8, noise: float = 0.5) -> Case:
    """Z ∼ w(θ) N(3 − 0.6θ, σ²) + (1 − w(θ)) N(1, σ²/4), w(θ) = sigmoid(2(1 − θ)), ℓ = −θz + ½ρθ², θ in [0, 3].

    With the mean demand M(θ) = 1 + w(θ)(2 − 0.6θ), which falls,

        PR(θ) = −θM(θ) + ½ρθ²,    PR'(θ) = −M(θ) − θM'(θ) + ρθ,

    and at a stable point ρθ = M(θ). Revenue alone has a second rise, where only the customers who do not mind are left: PR is
    convex on Θ from ρ = 0.6 on, which is the least `penalty`. Both conditions have one root within Θ, which Brent's
    method finds.
    """
    from scipy import optimize

    rho, variance = positive("penalty", penalty), positive("noise", noise) ** 2
    if not rho >= LEAST_PENALTY:
        raise ValueError(f"`penalty >= {LEAST_PENALTY}` must hold, so that the risk is convex, but got penalty={rho}")
    problem = Problem(Partial(loss, np.float64(rho)), Box([0.0], [MOST]))
    family = Mixture([Normal(variance), Normal(variance / 4)])
    environment = ParametricFamily(family, parameter)

    def demand(theta: float) -> float:
        share = special.expit(STEEPNESS * (USUAL - theta))
        return float(OCCASIONAL + share * (LOYAL - OCCASIONAL - SLOPE * theta))

    def slope(theta: float) -> float:
        share = special.expit(STEEPNESS * (USUAL - theta))
        steep = -STEEPNESS * share * (1 - share)
        return float(steep * (LOYAL - OCCASIONAL - SLOPE * theta) - SLOPE * share)

    def risk(theta: Floats) -> float:
        price = float(theta[0])
        return -price * demand(price) + 0.5 * rho * price**2

    def gradient(price: float) -> float:
        return rho * price - demand(price) - price * slope(price)

    best = optimize.brentq(gradient, 0.0, MOST, xtol=1e-14)
    stable = optimize.brentq(lambda price: rho * price - demand(price), 0.0, MOST, xtol=1e-14)
    return Case(
        name="mixture",
        title="A price for two kinds of customers",
        reference="after Izzo, Ying and Zou 2021, How to Learn when Data Reacts to Your Model: mixtures of fixed shares",
        problem=problem,
        environment=environment,
        risk=risk,
        optimum=kkt_point(problem, risk, lambda theta: np.array([gradient(float(theta[0]))]), [best]),
        stable=stable_kkt_point(problem, risk, lambda theta: rho * theta - demand(stable), [stable]),
        family=family,
        density=Partial(log_density, environment),
    )
