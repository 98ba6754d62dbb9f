"""The moments of a base distribution, in full and along the directions that an effect can move."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments import Gaussian, LocationFamily
from performative.numerics.arrays import Floats
from performative.shifts import overlap, shift_tensor


class BaseMoments(NamedTuple):
    """Σ (k, k), Σ on the r directions that the shift can move (r, r), and E‖Z₀ − E Z₀‖⁴ along them."""

    covariance: Floats
    moved_covariance: Floats
    moved_fourth: float


def base_moments(environment: LocationFamily, draws: Array, dimension: int) -> BaseMoments:
    """The moments of a base: exact for a Gaussian, otherwise those of `draws` (n, k)."""
    base = environment.base
    covariance = np.asarray(
        base.full_covariance() if isinstance(base, Gaussian) else jnp.cov(draws.T, bias=True)
    ).reshape(base.width, base.width)
    directions = _moved_directions(environment, dimension)
    within = directions.T @ covariance @ directions
    if isinstance(base, Gaussian):
        fourth = np.trace(within) ** 2 + 2 * np.sum(within * within)
    else:
        centered = (np.asarray(draws) - np.mean(draws, axis=0)) @ directions
        fourth = np.mean(np.sum(centered**2, axis=1) ** 2)
    return BaseMoments(covariance, within, float(fourth))


def is_isometric(environment: LocationFamily, dimension: int) -> bool:
    """Whether an effect is as large as the matrix θ ↦ shift(effect, θ) it stands for."""
    if environment.dimension is not None:
        return True
    gram = overlap(shift_tensor(environment.shift, environment.effect, dimension))
    return bool(np.allclose(gram, np.eye(len(gram)), atol=1e-9))


def _moved_directions(environment: LocationFamily, dimension: int) -> Floats:
    """An orthonormal basis (k, r) of the data directions that any effect can move."""
    width = environment.width
    if environment.dimension is not None:
        return np.eye(width)
    tensor = shift_tensor(environment.shift, environment.effect, dimension)
    left, values, _ = np.linalg.svd(tensor.reshape(width, -1), full_matrices=False)
    return np.asarray(left[:, values > 1e-12 * values[0]])
