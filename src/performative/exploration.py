"""Exploration: which decisions are deployed around θ_t."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.pytrees import pytree
from performative.sets import _assign
from performative.validation import positive


class Exploration(Protocol):
    """Turns the current decision into the decisions (b, d) to deploy this round."""

    def decisions(self, key: Array, theta: Array) -> Array:
        """The b decisions around θ."""


@pytree()
class Pair:
    """θ_t and θ_t + u_t with u_t ∼ N(0, scale²·I): lines 4 to 6 of Algorithm 1. Probes may leave Θ and break g."""

    scale: Any = 1.0

    def __post_init__(self) -> None:
        _assign(self, scale=np.float64(positive("exploration", self.scale)))

    def decisions(self, key: Array, theta: Array) -> Array:
        """(θ, θ + u)."""
        return jnp.stack([theta, theta + self.scale * jax.random.normal(key, theta.shape)])


@pytree()
class Alone:
    """θ_t by itself: for methods that need not learn the effect."""

    def decisions(self, key: Array, theta: Array) -> Array:
        """(θ)."""
        return theta[None]
