"""The performative risk of a decision, and its risk on data that stay as they are."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.protocol import Environment, KnownWorld, knows_risk
from performative.environments.quadrature import displaced, is_exact
from performative.numerics.arrays import as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import new_key
from performative.problem import Problem, with_dimension
from performative.validation import finite_array, whole


@in_float64
def performative_risk(
    problem: Problem, environment: Environment, theta: ArrayLike, samples: int = 100_000, seed: int = 0
) -> float:
    """PR(θ) = E_{Z∼D(θ)} ℓ(θ; Z).

    Exact on a location family where the loss is quadratic in the data or the base is empirical. For other losses on a
    Gaussian base it is a quadrature, with an error relative to the standard deviation of the loss: below 10⁻⁵ for data of
    one number, for analytic losses on data of two or three, and for sums of functions that each see one affine function of
    the data, kinks and jumps included (newsvendor, pinball, hinge, Huber, logistic); of order 10⁻³ for all others. A second rule
    checks this, and a `QuadratureWarning` says if the loss is too steep for it. For any other environment it is the average
    over `samples` draws with `seed`.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> pf.performative_risk(problem, market, [1.0])  # −1 · (4 − 1)
    -3.0
    """
    theta = jnp.asarray(finite_array("theta", theta, 1))
    if problem.dimension not in (None, theta.shape[0]):
        raise ValueError(
            f"`theta` must have shape ({problem.dimension},) like the problem's decisions, but got {theta.shape}"
        )
    problem = problem.of_dimension(theta.shape[0])
    if knows_risk(environment):
        environment.check(problem, theta)
        return float(_exact_risk(problem, environment, theta))
    z = environment.sample(new_key(seed), theta, whole("samples", samples, 1))
    problem.check_samples(z.shape[-1])
    return float(jnp.mean(jax.vmap(functools.partial(problem.loss, theta))(z)))


@pytree()
class TrueRisk:
    """The decoupled risk of a world, which is PR(θ) on its diagonal; if `displaced`, averaged over other nodes."""

    problem: Problem
    environment: KnownWorld
    displaced: Array

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR(θ), or the average loss of θ on the data that `where` induces."""
        return displaced(self.environment.risk(self.problem), self.displaced)(theta, where)

    @property
    def exact(self) -> bool:
        """Whether no quadrature is involved."""
        return is_exact(self.environment.risk(self.problem))

    def twin(self) -> TrueRisk:
        """The same risk by a quadrature with other nodes; the same compiled program computes both."""
        return changed(self, displaced=as_field(np.array(True)))

    def integrand(self, theta: Array, where: Array, z0: Array) -> Array:
        """What is averaged over the individuals z₀ of the base; the risk itself, if the world has no base."""
        risk = self.environment.risk(self.problem)
        return risk.integrand(theta, where, z0) if hasattr(risk, "integrand") else risk(theta, where)

    @property
    def width(self) -> int:
        """How many numbers an individual z₀ has."""
        return int(self.environment.width)


def true_risk(problem: Problem, environment: Environment) -> TrueRisk:
    """The risk of a problem, its dimension fixed, in a world whose truth must be known."""
    if not isinstance(problem, Problem):
        raise TypeError(f"`problem` must be a performative.Problem, but got {problem!r}")
    if not knows_risk(environment):
        raise TypeError(
            "the optimum needs an environment whose truth is known, such as performative.LocationFamily, "
            f"but got {type(environment).__name__}"
        )
    problem = with_dimension(problem, environment=getattr(environment, "dimension", None))
    environment.check(problem)
    return TrueRisk(problem, environment, as_field(np.array(False)))


@jax.jit
def _exact_risk(problem: Problem, environment: KnownWorld, theta: Array) -> Array:
    return environment.risk(problem)(theta)
