"""The performative risk of a decision, and its risk on data that stay as they are."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.protocol import Environment, KnownWorld, knows_risk
from performative.errors import SolverFailed
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, pytree
from performative.numerics.randomness import new_key
from performative.numerics.reads import Reading, reads
from performative.numerics.slopes import is_flat
from performative.problem import Problem, with_dimension
from performative.validation import shown, vector, whole


@in_float64
def performative_risk(
    problem: Problem, environment: Environment, theta: ArrayLike, samples: int = 100_000, seed: int = 0
) -> float:
    """PR(θ) = E_{Z∼D(θ)} ℓ(θ; Z).

    Exact on a location family where the loss is quadratic in the data or the base is empirical. For other losses on a
    Gaussian base it is a quadrature, with an error relative to the standard deviation of the loss: below 10⁻⁵ for data
    of one number, and for analytic losses on data of two or three numbers; of order 10⁻³ for losses with kinks on data of
    two numbers or more, and for any loss on data of more than three. A second rule checks this, and a `QuadratureWarning`
    says if the loss is too steep for it. For any other environment it is the average over `samples` draws with `seed`.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> pf.performative_risk(problem, market, [1.0])  # −1 · (4 − 1)
    -3.0
    """
    with_dimension(problem, required=False)
    if not callable(getattr(environment, "sample", None)):
        raise TypeError(
            f"`environment` must have sample(key, theta, n), but got {shown(environment)}; give a world such as LocationFamily"
        )
    theta = jnp.asarray(vector("theta", theta))
    if problem.dimension not in (None, theta.shape[0]):
        raise ValueError(
            f"`theta` must have shape ({problem.dimension},) like the problem's decisions, "
            f"but got {theta.shape}; give one number for each"
        )
    problem = problem.of_dimension(theta.shape[0])
    if knows_risk(environment):
        environment.check(problem, theta)
        return float(_exact_risk(TrueRisk(problem, as_node(environment), reads(environment)), theta))
    z = environment.sample(new_key(seed), theta, whole("samples", samples, 1))
    problem.check_samples(z.shape[-1])
    return float(jnp.mean(jax.vmap(functools.partial(problem.loss, theta))(z)))


@pytree("values")
class TrueRisk:
    """The decoupled risk of a world, which is PR(θ) on its diagonal; `values` are what the class of the world reads."""

    problem: Problem
    environment: KnownWorld
    values: Reading

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR(θ), or the average loss of θ on the data that `where` induces."""
        return self.environment.risk(self.problem)(theta, where)


def true_risk(problem: Problem, environment: Environment) -> TrueRisk:
    """The risk of a problem, its dimension fixed, in a world whose truth must be known."""
    with_dimension(problem, required=False)
    if not knows_risk(environment):
        raise TypeError(
            "the optimum needs an environment whose truth is known, such as performative.LocationFamily(base, effect), "
            f"but got {type(environment).__name__}"
        )
    problem = with_dimension(problem, environment=getattr(environment, "dimension", None))
    environment.check(problem)
    risk = TrueRisk(problem, as_node(environment), reads(environment))
    if is_flat(risk, jnp.zeros(problem.dimension)):
        raise SolverFailed(
            "the loss must have a gradient, but its average has none wherever it is defined, as for a 0–1 loss; use a smooth "
            "surrogate such as jax.nn.sigmoid for a step, or give the risk as a formula: performative.ClosedForm"
        )
    return risk


@jax.jit
def _exact_risk(risk: TrueRisk, theta: Array) -> Array:
    return risk(theta)
