"""What a world offers."""

from __future__ import annotations

from typing import Any, Protocol

from jax import Array

from performative.numerics.precision import in_float64
from performative.problem import Problem


class Environment(Protocol):
    """Any world: the data that answer a decision, as random as the key and nothing else.

    An environment whose randomness comes from standard normal numbers may offer `normals(n)`, how many n samples take, and
    `respond(normals, theta)` as well, with `sample(key, theta, n) = respond(standard_normal(key, normals(n)), theta)`; a
    simulation then draws for many rounds at once and shares the numbers between methods.
    """

    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""


def knows_risk(environment: Any) -> bool:
    """Whether the truth of this environment is open to metrics and optimum.

    Such an environment offers `risk(problem)`, the decoupled risk (θ, where) ↦ E_{Z∼D(where)} ℓ(θ; Z) as a pytree, whose diagonal
    is PR, and `check(problem)`, which refuses a problem that does not fit.
    """
    return all(callable(getattr(environment, part, None)) for part in ("risk", "check"))


@in_float64
def decoupled_risk(problem: Problem, environment: Any) -> Any:
    """The decoupled risk of a world whose truth is known, handed over in the open; any other world is refused."""
    if not knows_risk(environment):
        raise TypeError(
            f"`environment` must be one whose truth is known, such as performative.LocationFamily, but got {environment!r}"
        )
    environment.check(problem)
    return environment.risk(problem)
