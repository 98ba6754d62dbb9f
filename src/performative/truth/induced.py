"""What decisions cause in a world: the averages and distributions that limits on it need, and whether these hold."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.caused import Average, Distribution
from performative.environments.answers import require_still
from performative.environments.bases import Empirical, Gaussian
from performative.environments.closed_form import ClosedForm
from performative.environments.location import LocationFamily
from performative.environments.protocol import Environment, check_fits, knows_risk, risk_of
from performative.environments.quadrature import standard_normal_nodes
from performative.environments.reaction import Reacting
from performative.expected import Score
from performative.numerics import polynomial
from performative.numerics.arrays import Floats
from performative.numerics.outcomes import NormalOutcome, Outcomes
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, changed, pytree
from performative.numerics.randomness import new_key
from performative.problem import Loss, Problem, with_dimension
from performative.purity import is_own
from performative.truth.sampled import SampledRisk
from performative.validation import vector, whole


@in_float64
def induced(
    problem: Problem, environment: Environment, theta: ArrayLike, samples: int = 100_000, seed: int = 0
) -> Floats:
    """The values of the limits on what a decision causes, at most 0 where they hold, in the order of their names.

    Averages are those of `performative_risk`: exact, by quadrature, or over `samples` draws with `seed` where the world only
    samples. Probabilities and CVaR are exact on a Gaussian location family where the score is affine in z, and on an empirical
    base; otherwise they are those of nodes or draws.

    >>> import performative as pf
    >>> volume = pf.constraints.Expected(lambda price, sold: -sold[0], bound=-3.0, name="volume")
    >>> problem = pf.Problem(lambda price, sold: -price[0] * sold[0], pf.Box([0.0], [5.0]), [volume])
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> pf.induced(problem, market, [1.5]).tolist()  # 2.5 are sold, and 3 should be
    [0.5]
    """
    theta = jnp.asarray(vector("theta", theta))
    problem = with_dimension(problem, environment=environment, theta=theta.shape[0])
    samples = whole("samples", samples, 1)
    return np.asarray(_values(resolved(problem, environment, new_key(seed), samples), theta))[
        len(problem.constraints) :
    ]


@jax.jit
def _values(problem: Problem, theta: Array) -> Array:
    return jnp.concatenate([jnp.zeros(0), *(item(theta) for item in problem.constraints)])


def resolved(problem: Problem, environment: Any, key: Array | None = None, samples: int = 100_000) -> Problem:
    """The problem with its limits on what a decision causes as constraints whose values the world knows.

    A world that only samples draws so many samples with the key, the same for every decision.
    """
    if not problem.caused:
        return problem
    require_still(environment)
    key = new_key(0) if key is None else key
    source = WorldSource(problem.known, as_node(environment), key, jnp.asarray(0), samples)
    if not source.samples_only:
        for item in problem.caused:
            for function in item.averaged:
                check_fits(source.world, changed(problem.known, loss=function))
    return problem.resolved(source)


@pytree("samples")
class WorldSource:
    """What data decisions bring about in a world, for a problem without such limits."""

    problem: Problem
    environment: Environment
    key: Array
    t: Array
    samples: int

    @property
    def world(self) -> Any:
        """The world that averages any function: one with a formula for its loss has another inside."""
        return self.environment.world if isinstance(self.environment, ClosedForm) else self.environment

    @property
    def samples_only(self) -> bool:
        """Whether averages are over draws: a world of your own may know the average of its loss, but of no other function."""
        return is_own(self.world) or not knows_risk(self.world)

    def average(self, function: Score) -> Average:
        """As the world averages its loss, or over draws."""
        problem = changed(self.problem, loss=function)
        if self.samples_only:
            return self._drawn(problem)
        return risk_of(problem, self.world)

    def distribution(self, function: Score) -> Distribution:
        """A normal distribution, that of the nodes of a base, or that of draws."""
        world = self.world
        if isinstance(world, Reacting) and not self.samples_only:
            if isinstance(world, LocationFamily) and isinstance(world.base, Gaussian):
                theta, z = np.zeros(self.problem.d), np.zeros(world.width)
                if polynomial.degree(_InData(function), z, theta) <= 1:
                    return NormalScore(function, world)
            return NodeScore(function, world, *_points(world))
        return DrawnScore(self._drawn(changed(self.problem, loss=function)))

    def _drawn(self, problem: Problem) -> SampledRisk:
        return SampledRisk(problem, self.environment, self.key, self.t, self.samples)


def _points(world: Reacting) -> tuple[Array, Array]:
    """Points of the base, and their weights."""
    base = world.base
    if isinstance(base, Empirical):
        count = base.samples.shape[0]
        return jnp.asarray(base.samples), jnp.full(count, 1.0 / count)
    if not isinstance(base, Gaussian):
        raise TypeError(
            f"probabilities and CVaR need a Gaussian or an Empirical base, but got {type(base).__name__}; draw many samples from "
            "it and make them an Empirical base"
        )
    nodes, weights = standard_normal_nodes(base.width, False)
    return jax.vmap(base.color)(jnp.asarray(nodes)), jnp.asarray(weights)


@pytree()
class _InData:
    """A function of a decision and a sample, the sample first."""

    function: Loss

    def __call__(self, z: Array, theta: Array) -> Array:
        return self.function(theta, z)


@pytree()
class NormalScore:
    """The distribution of a score that is affine in the data of a Gaussian location family."""

    function: Score
    world: LocationFamily

    def __call__(self, theta: Array, where: Array | None = None) -> NormalOutcome:
        """N(s, ∇sᵀ Σ ∇s), s the score of the mean of the data."""
        base = self.world.base
        assert isinstance(base, Gaussian)
        center = self.world.react(theta if where is None else where, jnp.asarray(base.mean))
        score, slope = jax.value_and_grad(self.function, 1)(theta, center)
        variance = slope @ base.full_covariance() @ slope
        sure = variance > 0.0
        return NormalOutcome(score, jnp.where(sure, jnp.sqrt(jnp.where(sure, variance, 1.0)), 0.0))


@pytree()
class NodeScore:
    """The distribution of a score over points of a base that react to a decision."""

    function: Score
    world: Reacting
    points: Array
    weights: Array

    def __call__(self, theta: Array, where: Array | None = None) -> Outcomes:
        """The scores of the points."""
        induced = theta if where is None else where
        values = jax.vmap(lambda z0: self.function(theta, self.world.react(induced, z0)))(self.points)
        return Outcomes(values, self.weights, jnp.zeros(()))


@pytree()
class DrawnScore:
    """The distribution of a score over draws from a world, the same for every decision."""

    drawn: SampledRisk

    def __call__(self, theta: Array, where: Array | None = None) -> Outcomes:
        """The scores of the draws."""
        values = self.drawn.losses(theta, where)
        return Outcomes(values, jnp.full(values.shape, 1.0 / values.shape[0]), jnp.zeros(()))
