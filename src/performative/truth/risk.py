"""The performative risk of a decision: exact where the world knows it, otherwise an average over samples."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.answers import require_still, signature_of
from performative.environments.protocol import Environment, KnownWorld, check_fits, knows_risk, risk_of
from performative.environments.quadrature import displaced, is_exact
from performative.errors import SolverFailed
from performative.numerics.arrays import as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, changed, pytree
from performative.numerics.randomness import new_key
from performative.numerics.reads import Reading, reads
from performative.numerics.slopes import is_flat
from performative.problem import Problem, with_dimension
from performative.purity import SEVERAL, is_own, require_key_decides, unchanged
from performative.truth.induced import resolved
from performative.truth.sampled import Risk
from performative.validation import vector, whole


@in_float64
def performative_risk(
    problem: Problem, environment: Environment, theta: ArrayLike, samples: int = 100_000, seed: int = 0
) -> Risk:
    """PR(θ) = E_{Z∼D(θ)} ℓ(θ; Z).

    Exact on a location family where the loss is quadratic in the data or the base is empirical. For other losses on a
    Gaussian base it is a quadrature, with an error relative to the standard deviation of the loss: below 10⁻⁵ for data of
    one number, for analytic losses on data of two or three, and for sums of functions that each see one affine function of
    the data, kinks and jumps included (newsvendor, pinball, hinge, Huber, logistic); of order 10⁻³ for all others. A second rule
    checks this, and a `QuadratureWarning` says if the loss is too steep for it. For any other environment it is the average
    over `samples` draws with `seed`, and `.standard_error` of the result says how far off it may be.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> pf.performative_risk(problem, market, [1.0])  # −1 · (4 − 1)
    -3.0
    """
    with_dimension(problem, required=False)
    signature_of(environment)  # refuses what is not a world
    theta = jnp.asarray(vector("theta", theta))
    if problem.dimension not in (None, theta.shape[0]):
        raise ValueError(
            f"`theta` must have shape ({problem.dimension},) like the problem's decisions, "
            f"but got {theta.shape}; give one number for each"
        )
    problem = with_dimension(problem, theta=theta.shape[0])
    if knows_risk(environment):
        check_fits(environment, problem, theta)
        return Risk(float(_exact_risk(_true_risk(problem, environment), theta)))
    require_still(environment)
    samples = whole("samples", samples, 1)
    z = drawn(problem, environment, new_key(seed), theta, samples)
    return Risk.of(jax.vmap(functools.partial(problem.loss, theta))(z))


def drawn(problem: Problem, environment: Environment, key: Array, theta: Array, samples: int) -> Array:
    """Samples (n, k) at θ, refused if they do not fit."""
    z = jnp.asarray(environment.sample(key, theta, samples))
    if z.ndim != 2 or z.shape[0] != samples:
        raise ValueError(
            f"`environment.sample(key, theta, n)` must return samples (n, k), but returned {z.shape} for n={samples}; "
            "n rows, one for each sample"
        )
    problem.check_samples(z.shape[-1])
    return z


def require_samples(problem: Problem, environment: Environment, key: Array) -> None:
    """Refuse a world whose samples at a decision do not fit the problem, or are not a function of the key."""
    theta = jnp.asarray(problem.decisions.spread(problem.d, 1)[0])
    with unchanged({"the environment": environment}):
        drawn(problem, environment, key, theta, SEVERAL)
        if is_own(environment) or getattr(environment, "runs_on_host", False):
            other = jax.random.fold_in(key, 1)
            require_key_decides("the environment", lambda each: environment.sample(each, theta, SEVERAL), key, other)


@pytree("values")
class TrueRisk:
    """The decoupled risk of a world, which is PR(θ) on its diagonal; if `displaced`, averaged over other nodes.

    `values` are what the class of the world reads.
    """

    problem: Problem
    environment: KnownWorld
    displaced: Array
    values: Reading

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR(θ), or the average loss of θ on the data that `where` induces."""
        return displaced(risk_of(self.problem, self.environment), self.displaced)(theta, where)

    @property
    def exact(self) -> bool:
        """Whether no quadrature is involved, in the constraints neither."""
        return is_exact(risk_of(self.problem, self.environment)) and is_exact(self.problem.constraints)

    def twin(self) -> TrueRisk:
        """The same risk, and constraints, by a quadrature with other nodes; the same compiled program computes both risks."""
        other = as_field(np.array(True))
        return changed(self, displaced=other, problem=displaced(self.problem, other))

    def integrand(self, theta: Array, where: Array, z0: Array) -> Array:
        """What is averaged over the individuals z₀ of the base; the risk itself, if the world has no base."""
        risk = risk_of(self.problem, self.environment)
        return risk.integrand(theta, where, z0) if hasattr(risk, "integrand") else risk(theta, where)

    @property
    def width(self) -> int:
        """How many numbers an individual z₀ has."""
        return int(getattr(self.environment, "width", 1))


def true_risk(problem: Problem, environment: Environment) -> TrueRisk:
    """The risk of a problem, its dimension fixed and all its constraints known, in a world whose truth must be known."""
    with_dimension(problem, required=False)
    signature_of(environment)  # refuses what is not a world
    if not knows_risk(environment):
        require_still(environment)
        raise TypeError(
            "`environment` must know its risk, like performative.LocationFamily(base, effect), but "
            f"{type(environment).__name__} only samples; give it a method risk(problem)"
        )
    problem = with_dimension(problem, environment=environment)
    check_fits(environment, problem)
    risk = _true_risk(resolved(problem, environment), environment)
    if is_flat(risk, jnp.zeros(problem.d)):
        raise SolverFailed(
            "the loss must have a gradient, but its average has none wherever it is defined, as for a 0–1 loss; use a smooth "
            "surrogate such as jax.nn.sigmoid for a step, or pass the risk as a formula: performative.ClosedForm"
        )
    return risk


def _true_risk(problem: Problem, environment: KnownWorld) -> TrueRisk:
    return TrueRisk(problem, as_node(environment), as_field(np.array(False)), reads(environment))


@jax.jit
def _exact_risk(risk: TrueRisk, theta: Array) -> Array:
    return risk(theta)
