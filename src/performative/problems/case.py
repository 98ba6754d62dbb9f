"""Case: a problem in a world whose risk, optimum and stable point are known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jax import Array
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from performative.environments import Family, Normal, ParametricFamily
from performative.environments.protocol import KnownWorld
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed
from performative.problem import Problem
from performative.shifts import Shift
from performative.solvers.convexity import usual_slope
from performative.solvers.derivatives import Model
from performative.solvers.kkt import Solution, kkt_residual

ACCURACY = 1e-9
"""The largest KKT residual of an answer in closed form."""


class Case(NamedTuple):
    """A standard problem with its answers, from closed forms; the paper's two take some from the certified solvers.

    `risk` is PR(θ); `stable.risk` is PR at the stable point. The last fields are what a method may be told: `shift` and `prior`,
    the structure of a structured effect and a first guess of it; `family`, the form of the density p(·; f);
    `density(z, theta)`, log p in full; `known_effect`, A of a location family. Each is None where there is none.
    The optimum is None only for a world that moves.

    >>> import performative as pf
    >>> case = pf.problems.get("square-root")
    >>> case.title, round(float(case.optimum.decision[0]), 4), case.risk([0.0])
    ('A mean that is the square root of the decision', -0.6667, 0.0)
    """

    name: str
    title: str
    reference: str
    problem: Problem
    environment: KnownWorld
    risk: Callable[[Floats], float]
    optimum: Solution | None
    stable: Solution | None
    shift: Shift | None = None
    prior: Floats | None = None
    family: Family | None = None
    density: Callable[[Array, Array], Array] | None = None
    known_effect: Floats | None = None

    @property
    def center(self) -> Floats:
        """The optimum or, where there is none, a decision in the middle of Θ."""
        if self.optimum is not None:
            return np.asarray(self.optimum.decision)
        return np.mean(self.problem.decisions.spread(self.problem.d, 32), axis=0)


@in_float64
def kkt_point(
    problem: Problem,
    risk: Callable[[Floats], float],
    gradient: Callable[[Floats], Floats],
    decision: ArrayLike,
    multipliers: ArrayLike = (),
    message: str = "global: closed form",
    stable: bool = False,
) -> Solution:
    """The `Solution` at a decision known in closed form, refused if its KKT residual is not zero to nine digits.

    `gradient` is that of PR for an optimum and, for a stable point, that of the risk on the data frozen there.
    """
    decision, multipliers = np.asarray(decision, np.float64), np.asarray(multipliers, np.float64)
    flat = np.zeros((len(decision), len(decision)))
    scale = usual_slope(lambda theta: Model(np.asarray(risk(theta)), np.asarray(gradient(theta)), flat), problem)
    residual = kkt_residual(problem, decision, multipliers / scale, gradient(decision) / scale)
    if not residual <= ACCURACY:
        raise ValueError(
            f"the options must lead to a KKT point inside the decision set, but {decision} has the residual {residual:.3g}"
        )
    return changed(Solution.of(decision, multipliers, risk(decision), residual, False, message), stable=stable)


stable_kkt_point = functools.partial(kkt_point, stable=True)
"""The same for a stable point."""


def log_density(world: ParametricFamily, z: Array, theta: Array) -> Array:
    """log p(z; f(θ))."""
    return world.log_density(z, theta)


def affine(mean: Array, effect: Array, theta: Array) -> Array:
    """m + Aθ."""
    return mean + effect @ theta


def normal_density(mean: ArrayLike, effect: ArrayLike, covariance: ArrayLike) -> Partial:
    """log p(z, θ) of Z ∼ N(m + Aθ, Σ)."""
    moved = Partial(affine, np.asarray(mean, np.float64), np.asarray(effect, np.float64))
    return Partial(log_density, ParametricFamily(Normal(covariance), moved))
