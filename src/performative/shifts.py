"""The shift of the data: bilinear in an effect and a decision."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import callable_node

Shift = Callable[[Array, Array], Array]


def apply_effect(effect: Array, theta: Array) -> Array:
    """A θ: the shift of the paper, for a dense effect A (k, d)."""
    return effect @ theta


@in_float64
def shift_tensor(shift: Shift, effect: ArrayLike, dimension: int) -> Floats:
    """The shift as a tensor (k, p, d), as it is bilinear in an effect of p numbers and a decision of d."""
    return np.asarray(_tensor(callable_node(shift), np.zeros(np.shape(effect)), np.zeros(dimension)))


@jax.jit
def _tensor(shift: Shift, effect: Array, theta: Array) -> Array:
    tensor = jax.jacfwd(lambda theta: jax.jacfwd(lambda effect: shift(effect, theta))(effect))(theta)
    return tensor.reshape(tensor.shape[0], -1, theta.shape[0])


def require_distinct(tensor: Floats) -> None:
    """Refuse a shift under which different numbers of the effect move the data in the same way."""
    gram = overlap(tensor)
    if np.linalg.matrix_rank(gram) < len(gram):
        raise ValueError(
            "`shift` must let every entry of the effect be identified, but some of them move the data in the same way"
        )


def overlap(tensor: Floats) -> Floats:
    """The Gram matrix (p, p) of the matrices (k, d) that single numbers of the effect stand for."""
    return np.einsum("kpd,kqd->pq", tensor, tensor)


def unmoved(tensor: Floats) -> tuple[int, ...]:
    """The positions of the data that no effect can move."""
    return tuple(int(index) for index in np.flatnonzero(~np.any(tensor, axis=(1, 2))))
