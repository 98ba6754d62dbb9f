"""The shift of the data: bilinear in an effect and a decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import callable_node

Shift = Callable[[Any, Array], Array]


def apply_effect(effect: Array, theta: Array) -> Array:
    """A θ: the shift of the paper, for a dense effect A (k, d)."""
    return effect @ theta


@in_float64
def shift_tensor(shift: Shift, effect: Any, dimension: int) -> Floats:
    """The shift as a tensor (k, p, d): it is bilinear in an effect of p numbers and a decision of d."""
    tensor = np.asarray(_derivative(callable_node(shift), np.zeros(np.shape(effect)), np.zeros(dimension)))
    return tensor.reshape(tensor.shape[0], -1, dimension)


@jax.jit
def _derivative(shift: Shift, effect: Array, theta: Array) -> Array:
    return jax.jacfwd(lambda theta: jax.jacfwd(lambda effect: shift(effect, theta))(effect))(theta)


def require_distinct(tensor: Floats) -> None:
    """Refuse a shift under which some numbers of the effect move the data alike."""
    gram = overlap(tensor)
    if np.linalg.matrix_rank(gram) < len(gram):
        raise ValueError("`shift` must tell all numbers of the effect apart, but some of them move the data alike")


def overlap(tensor: Floats) -> Floats:
    """The Gram matrix (p, p) of the matrices (k, d) that single numbers of the effect stand for."""
    return np.einsum("kpd,kqd->pq", tensor, tensor)
