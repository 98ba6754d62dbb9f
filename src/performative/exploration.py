"""Exploration of constant size: which decisions are deployed around θ_t, inside Θ or anywhere (Algorithm 1, lines 4–6)."""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.precision import in_float64
from performative.numerics.pytrees import assign, pytree
from performative.sets import DecisionSet
from performative.validation import positive


class Exploration(Protocol):
    """Turns the current decision into the decisions (b, d) to deploy this round."""

    @property
    def strays(self) -> slice:
        """Which of the decisions may leave Θ; a simulation measures how far they do."""

    def normals(self, dimension: int) -> int:
        """How many standard normal numbers a round needs."""

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The b decisions around θ that these numbers stand for."""


@pytree()
class Pair:
    """θ_t and θ_t + u_t with u_t ∼ N(0, scale²·I): lines 4 to 6 of Algorithm 1. Probes may leave Θ and violate g.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> pf.Pair(scale=0.5).decisions(jnp.array([1.0]), jnp.array([3.0])).tolist()
    [[3.0], [3.5]]
    """

    scale: Array

    def __init__(self, scale: float = 1.0) -> None:
        assign(self, scale=np.float64(positive("exploration", scale)))

    @property
    def strays(self) -> slice:
        """The second, θ + u."""
        return slice(1, 2)

    def normals(self, dimension: int) -> int:
        """One for each coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The pair (θ, θ + u), as an array (2, d)."""
        return jnp.stack([theta, theta + self.scale * normals])


@pytree()
class PairInside:
    """θ_t and a probe that never leaves the set `within`: θ_t + u_t, or θ_t − u_t where only that lies in the set.

    Where neither does, it is the projection of the one that is nearer to the set. This departs from the paper, whose probes may
    leave Θ. Pairs teach the effect of a location family without bias whatever u_t is, and turning u_t around leaves u_t u_tᵀ, by
    which they teach it, as it is; only a projected probe is shorter and teaches less. The default estimation step stays valid,
    since no probe gets longer.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> inside = pf.PairInside(scale=1.0, within=pf.Box([0.0], [5.0]))
    >>> [inside.decisions(jnp.array([u]), jnp.array([4.5])).tolist() for u in (0.25, 1.0)]
    [[[4.5], [4.75]], [[4.5], [3.5]]]
    """

    scale: Array
    within: DecisionSet

    def __init__(self, scale: float, within: DecisionSet) -> None:
        assign(self, scale=np.float64(positive("exploration", scale)), within=within)

    @property
    def strays(self) -> slice:
        """None of them."""
        return slice(0)

    def normals(self, dimension: int) -> int:
        """One for each coordinate."""
        return dimension

    @in_float64
    def decisions(self, normals: Array, theta: Array) -> Array:
        """θ and the probe."""
        there, back = theta + self.scale * normals, theta - self.scale * normals
        is_nearer = self.within.distance(there) <= self.within.distance(back)
        return jnp.stack([theta, self.within.project(jnp.where(is_nearer, there, back))])


@pytree()
class Alone:
    """Deploy θ_t and nothing else, for methods that need not learn the effect.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> pf.Alone().decisions(jnp.zeros(0), jnp.array([3.0])).tolist()
    [[3.0]]
    """

    @property
    def strays(self) -> slice:
        """None of them."""
        return slice(0)

    def normals(self, dimension: int) -> int:
        """None are needed: the deployment is not random."""
        return 0

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The one decision θ, as an array (1, d)."""
        return theta[None]


@pytree()
class Around:
    """θ_t + u_t alone, u_t ∼ N(0, scale²·I), projected on the set `within`.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> pf.Around(scale=4.0, within=pf.Box([0.0], [5.0])).decisions(jnp.array([1.0]), jnp.array([3.0])).tolist()
    [[5.0]]
    """

    scale: Array
    within: DecisionSet

    def __init__(self, scale: float, within: DecisionSet) -> None:
        assign(self, scale=np.float64(positive("exploration", scale)), within=within)

    @property
    def strays(self) -> slice:
        """None of them: they are projected."""
        return slice(0)

    def normals(self, dimension: int) -> int:
        """One for each coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The one decision θ + u, projected on `within`, as an array (1, d)."""
        return self.within.project(theta + self.scale * normals)[None]


@pytree("both")
class Sphere:
    """θ_t + δv, v uniform on the unit sphere, and θ_t − δv too if `both`, for methods that use no derivative.

    Probes may leave Θ, by up to δ, and violate g.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> pf.Sphere(radius=0.5, both=True).decisions(jnp.array([2.0]), jnp.array([3.0])).tolist()
    [[3.5], [2.5]]
    """

    radius: Array
    both: bool

    def __init__(self, radius: float, both: bool = False) -> None:
        assign(self, radius=np.float64(positive("exploration", radius)), both=bool(both))

    @property
    def strays(self) -> slice:
        """All of them."""
        return slice(None)

    def normals(self, dimension: int) -> int:
        """One for each coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The probe on one side of θ, or on both."""
        way = self.radius * normals / jnp.sqrt(jnp.maximum(jnp.sum(normals * normals), 1e-300))
        return jnp.stack([theta + way, theta - way]) if self.both else (theta + way)[None]
