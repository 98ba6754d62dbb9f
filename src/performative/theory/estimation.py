"""Lemmas D1, E1 and E2: how fast the estimate of the effect approaches the effect.

D_t = Â_t − A is the parameter error, Σ the covariance of the base.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from performative.numerics.precision import in_float64
from performative.theory.arguments import require_nonnegative
from performative.theory.noise import Noise
from performative.validation import finite_array, positive, whole


def one_step(error: float, step: float, noise: Noise, trace: float) -> float:
    """Lemma E1: E‖Â_t − A‖²_F ≤ (1 − κ₁ζ(2 − ζκ₃))‖Â_{t−1} − A‖²_F + 2ζ²κ₂ tr Σ; `error` is ‖Â_{t−1} − A‖²_F and `step` is ζ.

    Assumes a location family, Assumption 5, one sample per deployment and 0 < ζ < 2/κ₃. For Gaussian probes it is an equality.

    >>> import performative as pf
    >>> pf.theory.one_step(1.0, step=0.25, noise=pf.theory.noise_constants("gaussian", dimension=2), trace=1.0)
    1.0
    """
    require_nonnegative(error=error, trace=trace)
    if not 0 < step * noise.kappa3 < 2:
        raise ValueError(f"`0 < step < 2/κ₃` must hold, but got {step=}, κ₃ = {noise.kappa3}")
    return (1 - noise.kappa1 * step * (2 - step * noise.kappa3)) * error + 2 * step**2 * noise.kappa2 * trace


def sequence(t: int, first: float, alpha: float, offset: float, as_printed: bool = False) -> float:
    """Lemma E2: S_t ≤ max{(1 + t₀)S₁, κα}/(t + t₀) if S_{t+1} ≤ (1 − 2/(t + t₀))S_t + α/(t + t₀)² and S_t ≥ 0 for all t.

    `first` is S₁, `offset` is t₀ ≥ 0 and κ = max{1, (2 + t₀)/(1 + t₀)²}, which is 1
    for t₀ ≥ (√5 − 1)/2 = 0.618…, as in Lemma D1, where t₀ ≥ 2.

    As printed: κ = 1 for all t₀ ≥ 0, and without S_t ≥ 0.

    >>> import performative as pf
    >>> pf.theory.sequence(2, first=0.0, alpha=1.0, offset=0.0), pf.theory.sequence(2, 0.0, 1.0, 0.0, as_printed=True)
    (1.0, 0.5)
    """
    require_nonnegative(first=first, alpha=alpha, offset=offset)
    factor = 1.0 if as_printed else max(1.0, (2 + offset) / (1 + offset) ** 2)
    return max((1 + offset) * first, factor * alpha) / (whole("t", t, 1) + offset)


def parameter_error_at(t: int, initial_error: float, noise: Noise, trace: float, as_printed: bool = False) -> float:
    """Lemma D1, one round: E‖Â_t − A‖²_F ≤ ᾱ/(t + 1 + t₀), t₀ = 2κ₃/κ₁, ᾱ = max{(1 + t₀)‖Â₀ − A‖², 8κ₂ tr Σ/κ₁²}.

    Assumes a location family, Assumption 5, one sample per deployment and ζ_t = 2/(κ₁t + 2κ₃); `initial_error` is ‖Â₀ − A‖²_F
    and `trace` is tr Σ. As printed: t + t₀ in the denominator, since the index of the proof is one behind the algorithm's.

    >>> import performative as pf
    >>> noise = pf.theory.noise_constants("gaussian", dimension=2)
    >>> pf.theory.parameter_error_at(7, initial_error=1.0, noise=noise, trace=1.0)
    1.0
    """
    t, t0 = whole("t", t, 0), 2 * noise.kappa3 / noise.kappa1
    return _alpha(initial_error, noise, trace) / (t + t0 + (0 if as_printed else 1))


def parameter_error(rounds: int, initial_error: float, noise: Noise, trace: float, as_printed: bool = False) -> float:
    """Lemma D1: Σ_{t=1}^T E‖Â_t − A‖²_F ≤ ᾱ ln(1 + T/(1 + t₀)), with the assumptions and names of `parameter_error_at`.

    As printed: ᾱ ln T, which is 0 at T = 1 although the error is not.

    >>> import performative as pf
    >>> noise = pf.theory.noise_constants("gaussian", dimension=2)
    >>> round(pf.theory.parameter_error(1_000, initial_error=1.0, noise=noise, trace=1.0), 3)
    75.512
    """
    rounds = whole("rounds", rounds, 1)
    t0 = 2 * noise.kappa3 / noise.kappa1
    return _alpha(initial_error, noise, trace) * (math.log(rounds) if as_printed else math.log1p(rounds / (1 + t0)))


def _alpha(initial_error: float, noise: Noise, trace: float) -> float:
    """ᾱ of Lemma D1."""
    require_nonnegative(initial_error=initial_error, trace=trace)
    return max((1 + 2 * noise.kappa3 / noise.kappa1) * initial_error, 8 * noise.kappa2 * trace / noise.kappa1**2)


@in_float64
def parameter_error_fourth(
    rounds: int, dimension: int, initial_error: float, covariance: ArrayLike, base_fourth: float, scale: float = 1.0
) -> float:
    """A bound on Σ_{t=1}^T E‖Â_t − A‖⁴_F, by running a recursion of its moments; the paper does not need it.

    Assumes a location family, probes u ∼ N(0, scale²I), one sample per deployment, the theorem's ζ_t and an initial error
    that is not random. `covariance` is Σ, `base_fourth` is E‖Z₀ − E Z₀‖⁴. A loss whose derivative in Z grows with Z feels the
    square of the parameter error in its gradient, and so the fourth power in e_t².

    >>> import performative as pf
    >>> bound = pf.theory.parameter_error_fourth(100, 2, initial_error=1.0, covariance=[[0.1]], base_fourth=0.03)
    >>> round(bound, 3)
    2.474
    """
    sigma = finite_array("covariance", covariance, 2) / positive("scale", scale) ** 2
    require_nonnegative(initial_error=initial_error, base_fourth=base_fourth)
    trace, squares = float(np.trace(sigma)), float(np.sum(sigma * sigma))
    largest = float(np.linalg.eigvalsh(sigma)[-1])
    noise_fourth = 2 * base_fourth / scale**4 + 2 * trace**2 + 4 * squares  # of Z'₀ − Z₀, two independent draws
    return float(_fourth_sum(whole("rounds", rounds, 1), float(dimension), initial_error, trace, largest, noise_fourth))


@jax.jit
def _fourth_sum(rounds: int, d: float, initial: float, trace: float, largest: float, noise_fourth: float) -> Array:
    def step(t: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        second, fourth, total = carry
        z = 2.0 / (t + 2.0 * (d + 2.0))
        retained = 1 - 4 * z + 2 * z**2 * (d + 2) + 3 * (4 * z**2 - 4 * z**3 * (d + 4) + z**4 * (d + 4) * (d + 6))
        mixed = 8 * z**2 * largest * (1 - 2 * z * (d + 2) + z**2 * (d + 2) * (d + 4))
        joint = 4 * z**2 * trace * (d - 2 * z * (d + 2) + z**2 * (d + 2) * (d + 4))
        next_fourth = retained * fourth + (mixed + joint) * second + z**4 * noise_fourth * d * (d + 2)
        second = (1 - 2 * z + z**2 * (d + 2)) * second + 2 * z**2 * d * trace
        return second, next_fourth, total + next_fourth

    start = (jnp.asarray(initial, float), jnp.asarray(initial, float) ** 2, jnp.zeros(()))
    return lax.fori_loop(1, rounds + 1, step, start)[2]
