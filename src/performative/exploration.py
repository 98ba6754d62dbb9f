"""Exploration: which decisions are deployed around θ_t."""

from __future__ import annotations

from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.pytrees import assign, pytree
from performative.validation import positive


class Exploration(Protocol):
    """Turns the current decision into the decisions (b, d) to deploy this round."""

    def normals(self, dimension: int) -> int:
        """How many standard normal numbers a round needs."""

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The b decisions around θ that these numbers stand for."""


@pytree()
class Pair:
    """θ_t and θ_t + u_t with u_t ∼ N(0, scale²·I): lines 4 to 6 of Algorithm 1. Probes may leave Θ and break g."""

    scale: Any = 1.0

    def __post_init__(self) -> None:
        assign(self, scale=np.float64(positive("exploration", self.scale)))

    def normals(self, dimension: int) -> int:
        """One a coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """(θ, θ + u)."""
        return jnp.stack([theta, theta + self.scale * normals])


@pytree()
class Alone:
    """θ_t by itself: for methods that need not learn the effect."""

    def normals(self, dimension: int) -> int:
        """None."""
        return 0

    def decisions(self, normals: Array, theta: Array) -> Array:
        """(θ)."""
        return theta[None]


@pytree()
class Around:
    """θ_t + u_t alone, u_t ∼ N(0, scale²·I), projected on the set `within`."""

    scale: Any
    within: Any

    def __post_init__(self) -> None:
        assign(self, scale=np.float64(positive("exploration", self.scale)))

    def normals(self, dimension: int) -> int:
        """One a coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """(θ + u)."""
        return self.within.project(theta + self.scale * normals)[None]


@pytree("both")
class Sphere:
    """θ_t + δv, v uniform on the unit sphere, and θ_t − δv too if `both`: for methods that need no derivative.

    Probes may leave Θ, by δ, and break g.
    """

    radius: Any
    both: Any = False

    def __post_init__(self) -> None:
        assign(self, radius=np.float64(positive("exploration", self.radius)))

    def normals(self, dimension: int) -> int:
        """One a coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """One or both sides."""
        way = self.radius * normals / jnp.sqrt(jnp.maximum(jnp.sum(normals * normals), 1e-300))
        return jnp.stack([theta + way, theta - way]) if self.both else (theta + way)[None]
