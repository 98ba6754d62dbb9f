"""The interface of a world."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, pytree
from performative.problem import Problem
from performative.purity import is_own
from performative.solvers.derivatives import DecoupledRisk
from performative.validation import shown


class Environment(Protocol):
    """Any world: the data that answer a decision. Its only randomness is the key.

    `sample` may also take the round, `sample(key, theta, n, t)`. A world with a memory has `init(key)`, its first state, and
    `sample(key, theta, n, state)`, which returns the samples and the next state; a round that deploys several decisions passes
    the state from one to the next.

    An environment whose randomness comes from standard normal numbers may also offer `normals(n)`, how many n samples take,
    and `respond(normals, theta)`, with `sample(key, theta, n) = respond(standard_normal(key, normals(n)), theta)`; a
    simulation then draws for many rounds at once and shares the numbers between methods.

    >>> import jax
    >>> import performative as pf
    >>> class Visitors:
    ...     def sample(self, key, theta, n):
    ...         return jax.random.poisson(key, 100.0 - 10.0 * theta[0], (n, 1)).astype(theta.dtype)
    >>> problem = pf.Problem(lambda price, count: -price[0] * count[0], pf.Box([0.0], [9.0]))
    >>> round(pf.performative_risk(problem, Visitors(), [5.0], samples=10_000), -1)
    -250.0
    """

    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""


class NormalWorld(Environment, Protocol):
    """A world whose randomness comes from standard normal numbers."""

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""

    def respond(self, normals: Array, theta: Array) -> Array:
        """The samples (n, k) made from these numbers."""


def takes_normals(environment: Environment) -> TypeGuard[NormalWorld]:
    """Whether a world offers to be given its standard normal numbers."""
    return hasattr(environment, "normals")


class KnownWorld(NormalWorld, Protocol):
    """A world whose truth is known: its risk can be computed. `sample` and `risk` suffice for your own.

    >>> import jax
    >>> import performative as pf
    >>> class Visitors:
    ...     def sample(self, key, theta, n):
    ...         return jax.random.poisson(key, 100.0 - 10.0 * theta[0], (n, 1)).astype(theta.dtype)
    ...     def risk(self, problem):  # for the loss −price · count alone
    ...         return lambda theta, where: -theta[0] * (100.0 - 10.0 * where[0])
    >>> problem = pf.Problem(lambda price, count: -price[0] * count[0], pf.Box([0.0], [9.0]))
    >>> pf.performative_optimum(problem, Visitors()).decision.round(6).tolist()
    [5.0]
    """

    @property
    def width(self) -> int:
        """k, the length of one sample."""

    def risk(self, problem: Problem, steps: int | None = None) -> DecoupledRisk:
        """The decoupled risk (θ, where) ↦ E_{Z∼D(where)} ℓ(θ; Z) as a pytree; its diagonal is PR."""

    def check(self, problem: Problem, theta: ArrayLike | None = None) -> None:
        """Refuse a problem that does not fit; your own worlds may leave it out."""


class MovingWorld(Protocol):
    """A world that knows what it is in every round."""

    def at(self, t: Array) -> KnownWorld:
        """The world in round t."""


def knows_risk(environment: Any) -> TypeGuard[KnownWorld]:
    """Whether the truth of this environment is available to metrics and optimum: it has `risk(problem)`."""
    return callable(getattr(environment, "risk", None))


def check_fits(environment: KnownWorld, problem: Problem, theta: ArrayLike | None = None) -> None:
    """Refuse a problem that does not fit a world whose truth is known."""
    if callable(getattr(environment, "check", None)):
        environment.check(problem, theta)
        return
    decision = np.asarray(problem.decisions.spread(problem.d, 1))[0] if theta is None else np.asarray(theta)
    try:
        risk = environment.risk(problem)
        value = np.asarray(risk(jnp.asarray(decision), jnp.asarray(decision)))
    except TypeError as error:
        raise TypeError(
            "`risk(problem)` of a world must return a function of (theta, where), the average loss of `theta` on the data "
            f"that `where` induces, but: {error}"
        ) from error
    if value.shape != ():
        raise ValueError(f"`risk(problem)(theta, where)` must return one number, but returned shape {value.shape}")


def check_solution(environment: Any, problem: Problem, theta: ArrayLike) -> None:
    """Refuse a solution at which the world is not defined; only some worlds can tell."""
    check = getattr(environment, "check_solution", None)
    if callable(check):
        check(problem, theta)


@pytree()
class OwnRisk:
    """The decoupled risk of a user's world, whose `risk(problem)` need be neither a pytree nor know a default for `where`."""

    problem: Problem
    environment: KnownWorld

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR(θ), or the average loss of θ on the data that `where` induces."""
        return jnp.asarray(self.environment.risk(self.problem)(theta, theta if where is None else where))


def risk_of(problem: Problem, environment: Any, steps: int | None = None) -> DecoupledRisk:
    """The decoupled risk of a world whose truth is known; `steps` is the size of its quadrature grid, if not the default."""
    if is_own(environment):
        return OwnRisk(problem, as_node(environment))
    return environment.risk(problem, steps) if steps else environment.risk(problem)


def require_known(environment: Any) -> None:
    """Refuse a world whose truth is not known."""
    if not knows_risk(environment):
        raise TypeError(
            f"`environment` must know its risk, like performative.LocationFamily(base, effect), but got {shown(environment)}; "
            "give it a method risk(problem)"
        )


@in_float64
def decoupled_risk(problem: Problem, environment: Any) -> DecoupledRisk:
    """The decoupled risk of a world whose truth is known; any other world is refused."""
    require_known(environment)
    check_fits(environment, problem)
    return risk_of(problem, environment)
