"""A mean that is the square root of the decision: the standard test of methods that learn the derivative of a parameter."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from performative.environments import Normal, ParametricFamily
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.problems.case import Case, kkt_point, log_density, stable_kkt_point
from performative.sets import Box
from performative.validation import positive

LEAST, MOST = -0.95, 1.0
FLOOR = 0.01
"""Decisions outside Θ, which some methods try, are taken to be at least this far above −1."""


def loss(theta: Array, z: Array) -> Array:
    """θz."""
    return theta[0] * z[0]


def parameter(theta: Array) -> Array:
    """√(θ + 1)."""
    return jnp.sqrt(jnp.maximum(theta + 1.0, FLOOR))


def make(noise: float = 0.5) -> Case:
    """Z ∼ N(√(θ + 1), σ²), ℓ = θz, θ in [−0.95, 1].

        PR(θ) = θ√(θ + 1),    PR'(θ) = (3θ + 2)/(2√(θ + 1)),    PR''(θ) = (3θ + 4)/(4(θ + 1)^{3/2}) > 0,

    so that the optimum is −2/3. On frozen data the derivative is √(θ + 1) > 0 wherever the data were frozen: the stable point
    is the lower end of Θ.
    """
    variance = positive("noise", noise) ** 2
    problem = Problem(loss, Box([LEAST], [MOST]))
    environment = ParametricFamily(Normal(variance), parameter)

    def risk(theta: Floats) -> float:
        return float(theta[0] * np.sqrt(theta[0] + 1.0))

    return Case(
        name="square-root",
        title="A mean that is the square root of the decision",
        reference="Izzo, Ying and Zou 2021, How to Learn when Data Reacts to Your Model: nonlinear mean",
        problem=problem,
        environment=environment,
        risk=risk,
        optimum=kkt_point(problem, risk, lambda theta: (1.5 * theta + 1.0) / np.sqrt(theta + 1.0), [-2.0 / 3.0]),
        stable=stable_kkt_point(problem, risk, lambda theta: np.full(1, np.sqrt(LEAST + 1.0)), [LEAST]),
        family=Normal(variance),
        density=Partial(log_density, environment),
    )
