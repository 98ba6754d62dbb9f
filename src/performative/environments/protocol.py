"""The interface of a world."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

from jax import Array
from numpy.typing import ArrayLike

from performative.numerics.precision import in_float64
from performative.problem import Problem
from performative.solvers.derivatives import DecoupledRisk


class Environment(Protocol):
    """Any world: the data that answer a decision. Its only randomness is the key.

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
    """A world whose truth is known: its risk can be computed."""

    @property
    def width(self) -> int:
        """k, the length of one sample."""

    def risk(self, problem: Problem, steps: int | None = None) -> DecoupledRisk:
        """The decoupled risk (θ, where) ↦ E_{Z∼D(where)} ℓ(θ; Z) as a pytree; its diagonal is PR."""

    def check(self, problem: Problem, theta: ArrayLike | None = None) -> None:
        """Refuse a problem that does not fit."""


def knows_risk(environment: Any) -> TypeGuard[KnownWorld]:
    """Whether the truth of this environment is available to metrics and optimum: it has `risk` and `check`."""
    return all(callable(getattr(environment, part, None)) for part in ("risk", "check"))


def require_known(environment: Any) -> None:
    """Refuse a world whose truth is not known."""
    if not knows_risk(environment):
        raise TypeError(
            f"`environment` must be one whose truth is known, such as performative.LocationFamily, but got {environment!r}"
        )


@in_float64
def decoupled_risk(problem: Problem, environment: Any) -> DecoupledRisk:
    """The decoupled risk of a world whose truth is known; any other world is refused."""
    require_known(environment)
    environment.check(problem)
    return environment.risk(problem)
