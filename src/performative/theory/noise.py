"""The constants κ₁, κ₂, κ₃ of the injected noise (Assumption 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from performative.numerics.arrays import Floats
from performative.validation import finite_array, positive, whole

GROUPS = 50
"""Groups of draws that the jackknife leaves out one by one."""


class Noise(NamedTuple):
    """κ₁, κ₂, κ₃ of a noise u: κ₁I ⪯ E[uuᵀ], E‖u‖² ≤ κ₂, E[‖u‖²uuᵀ] ⪯ κ₃E[uuᵀ]; `errors` are their standard errors.

    >>> import performative as pf
    >>> pf.theory.Noise(kappa1=1.0, kappa2=3.0, kappa3=5.0).errors
    (0.0, 0.0, 0.0)
    """

    kappa1: float
    kappa2: float
    kappa3: float
    errors: tuple[float, float, float] = (0.0, 0.0, 0.0)


def noise_constants(
    noise: str | Callable[[np.random.Generator, int], Floats],
    dimension: int,
    scale: float = 1.0,
    draws: int = 200_000,
    seed: int = 0,
    as_printed: bool = False,
) -> Noise:
    """κ₁, κ₂, κ₃ of Assumption 5.

    `noise` is "gaussian" (N(0, scale²I)), "rademacher" (entries ±scale), "sphere" (uniform on the sphere of radius `scale`), or
    a function (generator, n) → (n, d). The constants of a function are estimated from `draws` draws, with standard errors by
    the jackknife. As printed: κ₃ = 3d for Gaussian noise, which is valid and looser than d + 2.

    >>> import performative as pf
    >>> pf.theory.noise_constants("gaussian", dimension=3)[:3]
    (1.0, 3.0, 5.0)
    """
    d, s2 = whole("dimension", dimension, 1), positive("scale", scale) ** 2
    if noise == "gaussian":
        return Noise(s2, d * s2, (3 * d if as_printed else d + 2) * s2)
    if noise == "rademacher":
        return Noise(s2, d * s2, d * s2)
    if noise == "sphere":
        return Noise(s2 / d, s2, s2)
    if not callable(noise):
        raise ValueError(f"`noise` must be 'gaussian', 'rademacher', 'sphere' or a function, but got {noise!r}")
    each = max(whole("draws", draws, GROUPS * (d + 1)) // GROUPS, 1)
    random = np.random.default_rng(seed)
    second, fourth = np.zeros((GROUPS, d, d)), np.zeros((GROUPS, d, d))
    for group in range(GROUPS):
        u = scale * finite_array("noise", noise(random, each), 2)
        if u.shape != (each, d):
            raise ValueError(f"`noise` must return shape {(each, d)}, but returned {u.shape}")
        second[group] = u.T @ u / each
        fourth[group] = (u * np.sum(u * u, axis=1, keepdims=True)).T @ u / each
    value = _from_moments(second.mean(axis=0), fourth.mean(axis=0))
    without = np.array(
        [
            _from_moments(
                (second.sum(axis=0) - second[group]) / (GROUPS - 1), (fourth.sum(axis=0) - fourth[group]) / (GROUPS - 1)
            )
            for group in range(GROUPS)
        ]
    )
    spread = np.sqrt((GROUPS - 1) * np.mean((without - without.mean(axis=0)) ** 2, axis=0))
    return Noise(*value, errors=(float(spread[0]), float(spread[1]), float(spread[2])))


def _from_moments(second: Floats, fourth: Floats) -> tuple[float, float, float]:
    """κ₁, κ₂, κ₃ from E[uuᵀ] and E[‖u‖²uuᵀ]."""
    values, vectors = np.linalg.eigh(second)
    if values[0] <= 0:
        raise ValueError(
            f"`noise` must excite every direction, but the smallest eigenvalue of its covariance is {values[0]:.3g}"
        )
    root = vectors / np.sqrt(values)
    return float(values[0]), float(np.trace(second)), float(np.linalg.eigvalsh(root.T @ fourth @ root)[-1])
