"""Lemmas 1 to 4, Lemma D1 and the constants of the injected noise, each as a function that returns a number.

Symbols are the paper's: R the radius of Θ, C and L_g the bound and Lipschitz constant of g, L and γ the Lipschitz and
strong-convexity constants of PR, σ_max(A) the sensitivity, Σ the covariance of the base, κ₁, κ₂, κ₃ those of the noise, λ* the
multipliers of the optimum. D_t = Â_t − A is the parameter error, e_t = ∇P̂R_t(θ_t) − ∇PR(θ_t) the gradient error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.shifts import Shift
from performative.steps import control_interval
from performative.validation import finite_array, positive, whole


@in_float64
def sensitivity(effect: Any, shift: Shift | None = None, dimension: int | None = None) -> float:
    """Lemma 1: ε = σ_max(A), with W₁(D(θ), D(θ')) ≤ ε‖θ − θ'‖.

    Assumes a location family; no other assumption. For a structured effect give its `shift` and the decisions' `dimension`.
    """
    return float(_singular_values(effect, shift, dimension)[0])


def least_response(effect: Any, shift: Shift | None = None, dimension: int | None = None) -> float:
    """σ_min(A) = min ‖Aθ‖ over ‖θ‖ = 1, which is 0 where A has fewer rows than columns."""
    values = _singular_values(effect, shift, dimension)
    return float(values[-1])


def _singular_values(effect: Any, shift: Shift | None, dimension: int | None) -> Floats:
    effect = finite_array("effect", effect, 2 if shift is None else None)
    if shift is None:
        matrix = effect
    else:
        size = whole("dimension", dimension, 1)
        matrix = np.asarray(jax.jacobian(lambda theta: shift(jnp.asarray(effect), theta))(jnp.zeros(size)))
    values = np.linalg.svd(matrix, compute_uv=False)
    missing = matrix.shape[1] - len(values)
    return np.concatenate([values, np.zeros(max(missing, 0))])


def risk_lipschitz(loss_lipschitz: float, data_lipschitz: float, sensitivity: float) -> float:
    """Lemma 2, first part: PR is L-Lipschitz with L ≤ L_θ + L_Z σ_max(A).

    Assumes ℓ to be L_θ-Lipschitz in θ and L_Z-Lipschitz in Z (Assumption 1) and a location family.
    """
    return loss_lipschitz + data_lipschitz * sensitivity


def risk_convexity(
    decision_convexity: float,
    data_convexity: float,
    smoothness: float,
    sensitivity: float,
    least_response: float = 0.0,
    as_printed: bool = False,
) -> float:
    """Lemma 2, second part: PR is γ-strongly convex with γ ≥ min of γ_Z s² − 2βs + γ_θ over σ_min(A) ≤ s ≤ σ_max(A).

    Assumes ℓ to be γ_θ-strongly convex in θ, γ_Z-strongly convex in Z, and ‖∇_θℓ(θ; z) − ∇_θℓ(θ; z')‖ ≤ β‖z − z'‖. This β is the
    smoothness across θ and Z, not that of ℓ as a whole, for which γ_θ − β²/γ_Z > 0 is impossible.

    As printed: max{γ_θ − β²/γ_Z, γ_θ − 2σ_max β + γ_Z σ_min²}, which is never larger.
    """
    _require_nonnegative(data_convexity=data_convexity, smoothness=smoothness, least_response=least_response)
    if least_response > sensitivity:
        raise ValueError(f"`least_response <= sensitivity` must hold, but got {least_response=}, {sensitivity=}")
    if as_printed:
        whole_line = decision_convexity - smoothness**2 / data_convexity if data_convexity > 0 else -math.inf
        ends = decision_convexity - 2 * sensitivity * smoothness + data_convexity * least_response**2
        return max(whole_line, ends)
    at = smoothness / data_convexity if data_convexity > 0 else math.inf
    s = min(max(at, least_response), sensitivity)
    return data_convexity * s**2 - 2 * smoothness * s + decision_convexity


class Noise(NamedTuple):
    """κ₁, κ₂, κ₃ of a noise u: κ₁I ⪯ E[uuᵀ], E‖u‖² ≤ κ₂, E[‖u‖²uuᵀ] ⪯ κ₃E[uuᵀ]; `errors` are their standard errors."""

    kappa1: float
    kappa2: float
    kappa3: float
    errors: tuple[float, float, float] = (0.0, 0.0, 0.0)


def noise_constants(
    noise: str | Callable[[np.random.Generator, int], Any],
    dimension: int,
    scale: float = 1.0,
    draws: int = 200_000,
    seed: int = 0,
    as_printed: bool = False,
) -> Noise:
    """κ₁, κ₂, κ₃ of Assumption 5.

    `noise` is "gaussian" (N(0, scale²I)), "rademacher" (entries ±scale), "sphere" (uniform on the sphere of radius `scale`), or
    a function (generator, n) → (n, d), whose constants are then estimated from `draws` draws with the jackknife's standard
    errors. As printed: κ₃ = 3d for Gaussian noise, which is valid and looser than d + 2.
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
    groups = 50
    each = max(whole("draws", draws, groups * (d + 1)) // groups, 1)
    random = np.random.default_rng(seed)
    second, fourth = np.zeros((groups, d, d)), np.zeros((groups, d, d))
    for group in range(groups):
        u = scale * finite_array("noise", noise(random, each), 2)
        if u.shape != (each, d):
            raise ValueError(f"`noise` must return shape {(each, d)}, but returned {u.shape}")
        second[group] = u.T @ u / each
        fourth[group] = (u * np.sum(u * u, axis=1, keepdims=True)).T @ u / each
    value = _noise_from(second.mean(axis=0), fourth.mean(axis=0))
    without = np.array(
        [
            _noise_from(
                (second.sum(axis=0) - second[group]) / (groups - 1), (fourth.sum(axis=0) - fourth[group]) / (groups - 1)
            )
            for group in range(groups)
        ]
    )
    spread = np.sqrt((groups - 1) * np.mean((without - without.mean(axis=0)) ** 2, axis=0))
    return Noise(*value, errors=(float(spread[0]), float(spread[1]), float(spread[2])))


def _noise_from(second: Floats, fourth: Floats) -> tuple[float, float, float]:
    values, vectors = np.linalg.eigh(second)
    if values[0] <= 0:
        raise ValueError(
            f"`noise` must excite every direction, but the smallest eigenvalue of its covariance is {values[0]:.3g}"
        )
    root = vectors / np.sqrt(values)
    return float(values[0]), float(np.trace(second)), float(np.linalg.eigvalsh(root.T @ fourth @ root)[-1])


def parameter_error_at(t: int, initial_error: float, noise: Noise, trace: float, as_printed: bool = False) -> float:
    """Lemma D1, one round: E‖Â_t − A‖²_F ≤ ᾱ/(t + 1 + t₀), t₀ = 2κ₃/κ₁, ᾱ = max{(1 + t₀)‖Â₀ − A‖², 8κ₂ tr Σ/κ₁²}.

    Assumes a location family, Assumption 5, one sample a deployment and ζ_t = 2/(κ₁t + 2κ₃); `initial_error` is ‖Â₀ − A‖²_F.
    As printed the same with t + t₀, for the index of the proof is one behind that of the algorithm.
    """
    t, t0 = whole("t", t, 0), 2 * noise.kappa3 / noise.kappa1
    return _alpha(initial_error, noise, trace) / (t + t0 + (0 if as_printed else 1))


def parameter_error(rounds: int, initial_error: float, noise: Noise, trace: float, as_printed: bool = False) -> float:
    """Lemma D1: Σ_{t=1}^T E‖Â_t − A‖²_F ≤ ᾱ ln(1 + T/(1 + t₀)), assumptions and names as in `parameter_error_at`.

    As printed: ᾱ ln T, which is 0 at T = 1 although the error is not.
    """
    rounds = whole("rounds", rounds, 1)
    t0 = 2 * noise.kappa3 / noise.kappa1
    return _alpha(initial_error, noise, trace) * (math.log(rounds) if as_printed else math.log1p(rounds / (1 + t0)))


def _alpha(initial_error: float, noise: Noise, trace: float) -> float:
    _require_nonnegative(initial_error=initial_error, trace=trace)
    return max((1 + 2 * noise.kappa3 / noise.kappa1) * initial_error, 8 * noise.kappa2 * trace / noise.kappa1**2)


@in_float64
def parameter_error_fourth(
    rounds: int, dimension: int, initial_error: float, covariance: Any, base_fourth: float, scale: float = 1.0
) -> float:
    """Σ_{t=1}^T E‖Â_t − A‖⁴_F, bounded by running a recursion of its moments; the paper does not need it.

    Assumes a location family, probes u ∼ N(0, scale²I), one sample a deployment, the theorem's ζ_t and an initial error
    that is not random. `covariance` is Σ, `base_fourth` is E‖Z₀ − E Z₀‖⁴. A loss whose derivative in Z grows with Z feels the
    square of the parameter error in its gradient, and so the fourth power in e_t².
    """
    sigma = finite_array("covariance", covariance, 2) / positive("scale", scale) ** 2
    _require_nonnegative(initial_error=initial_error, base_fourth=base_fourth)
    trace, squares = float(np.trace(sigma)), float(np.sum(sigma * sigma))
    largest = float(np.linalg.eigvalsh(sigma)[-1])
    noise_fourth = 2 * base_fourth / scale**4 + 2 * trace**2 + 4 * squares  # of Z'₀ − Z₀, two independent draws
    return float(_fourth_sum(whole("rounds", rounds, 1), float(dimension), initial_error, trace, largest, noise_fourth))


@jax.jit
def _fourth_sum(rounds: Any, d: Any, initial: Any, trace: Any, largest: Any, noise_fourth: Any) -> Array:
    def step(t: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        second, fourth, total = carry
        z = 2.0 / (t + 2.0 * (d + 2.0))
        kept = 1 - 4 * z + 2 * z**2 * (d + 2) + 3 * (4 * z**2 - 4 * z**3 * (d + 4) + z**4 * (d + 4) * (d + 6))
        mixed = 8 * z**2 * largest * (1 - 2 * z * (d + 2) + z**2 * (d + 2) * (d + 4))
        joint = 4 * z**2 * trace * (d - 2 * z * (d + 2) + z**2 * (d + 2) * (d + 4))
        grown = kept * fourth + (mixed + joint) * second + z**4 * noise_fourth * d * (d + 2)
        second = (1 - 2 * z + z**2 * (d + 2)) * second + 2 * z**2 * d * trace
        return second, grown, total + grown

    start = (jnp.asarray(initial, float), jnp.asarray(initial, float) ** 2, jnp.zeros(()))
    return lax.fori_loop(1, rounds + 1, step, start)[2]


def effect_gain(
    smoothness: float, data_smoothness: float, data_lipschitz: float, sensitivity: float, radius: float
) -> tuple[float, float]:
    """(K₁, K₂) with ‖∇P̂R_t(θ) − ∇P̂R(θ)‖ ≤ K₁‖D‖ + K₂‖D‖² on Θ, from the constants of the loss.

    K₁ = (β + σ_max β_Z)R + L_Z and K₂ = β_Z R. Assumes ‖∇_θℓ(θ; z) − ∇_θℓ(θ; z')‖ ≤ β‖z − z'‖ (`smoothness`), the same of ∇_Zℓ
    with β_Z (`data_smoothness`), and ‖∇_Zℓ(θ; Z)‖ ≤ L_Z on average over the base samples with the true effect.
    """
    return (smoothness + sensitivity * data_smoothness) * radius + data_lipschitz, data_smoothness * radius


def gradient_error(
    rounds: int,
    warmup: int,
    *,
    variance: float,
    smoothness: float,
    data_smoothness: float,
    data_lipschitz: float,
    sensitivity: float,
    radius: float,
    parameter_error: float,
    parameter_error_fourth: float | None = None,
    gain: tuple[float, float] | None = None,
    as_printed: bool = False,
) -> float:
    """Lemma 4: Σ E‖e_t‖² ≤ 2Tσ²/n + 4K₁² ΣE‖D_t‖² + 4K₂² ΣE‖D_t‖⁴, or 2Tσ²/n + 2K₁² ΣE‖D_t‖² if K₂ = 0.

    Assumes Assumption 4 uniformly, n E sup_θ ‖∇P̂R(θ) − ∇PR(θ)‖² ≤ σ² (`variance`), since θ_t depends on the n base samples, and
    what `effect_gain` assumes; (K₁, K₂) is its value unless `gain` gives a sharper one. The two sums are those of
    `parameter_error` and `parameter_error_fourth`.

    As printed: 2Tσ²/n + (4/n)(2L_Z² + β²R²(1 + 2σ_max)) ΣE‖D_t‖². But the n base samples share one parameter error, which does
    not average out, σ_max enters squared, and what is strongly convex in unbounded Z is not Lipschitz in it.
    """
    _require_nonnegative(variance=variance, parameter_error=parameter_error, radius=radius)
    sampled = 2 * whole("rounds", rounds, 1) * variance / whole("warmup", warmup, 1)
    if as_printed:
        spread = 2 * data_lipschitz**2 + smoothness**2 * radius**2 * (1 + 2 * sensitivity)
        return sampled + 4 / warmup * spread * parameter_error
    first, second = gain or effect_gain(smoothness, data_smoothness, data_lipschitz, sensitivity, radius)
    if second == 0:
        return sampled + 2 * first**2 * parameter_error
    if parameter_error_fourth is None:
        raise ValueError(
            f"`parameter_error_fourth` must be given where the gain has a second part, but K₂ = {second:.6g}"
        )
    return sampled + 4 * (first**2 * parameter_error + second**2 * parameter_error_fourth)


def _require_nonnegative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"`{name}` must be a number >= 0, but got {value}")


class _Framework(NamedTuple):
    """What Lemma 3 rests on: B = 2R²/η + ηT(C² + 2L²) + ηG and c = 1/η + δηT."""

    common: float
    weight: float


def _framework(
    rounds: int,
    error: float,
    radius: float,
    constraint_bound: float,
    constraint_lipschitz: float,
    lipschitz: float,
    control: float,
    multipliers: float,
    step: float | None,
) -> _Framework:
    rounds = whole("rounds", rounds, 1)
    _require_nonnegative(
        gradient_error=error,
        radius=radius,
        constraint_bound=constraint_bound,
        lipschitz=lipschitz,
        control=control,
        multipliers=multipliers,
    )
    eta = 1 / math.sqrt(rounds) if step is None else positive("step", step)
    low, high = control_interval(eta, constraint_lipschitz)
    if not low * (1 - 1e-12) <= control <= high * (1 + 1e-12):
        raise ValueError(
            f"`control` must lie in the interval [{low:.6g}, {high:.6g}] of Lemma 3 for step={eta:.6g} and L_g = "
            f"{constraint_lipschitz:.6g}, but got {control:.6g}"
        )
    common = 2 * radius**2 / eta + eta * rounds * (constraint_bound**2 + 2 * lipschitz**2) + eta * error
    return _Framework(common, 1 / eta + control * eta * rounds)


def regret(
    rounds: int,
    gradient_error: float,
    *,
    convexity: float,
    radius: float,
    constraint_bound: float,
    constraint_lipschitz: float,
    lipschitz: float,
    control: float,
    multipliers: float = 0.0,
    step: float | None = None,
    a: float | None = None,
    as_printed: bool = False,
) -> float:
    """Lemma 3: Σ (E PR(θ_t) − PR(θ_PO)) ≤ γ/(γ−a) · [B + G/(2a) + c (a/γ)² ‖λ*‖²/2], G = ΣE‖e_t‖² being `gradient_error`.

    With η = `step` (1/√T by default) B = 2R²/η + ηT(C² + 2L²) + ηG and c = 1/η + δηT. Assumes Assumptions 2 and 3, PR γ-strongly
    convex and L-Lipschitz on Θ, δ = `control` in `control_interval`, and multipliers λ* at the optimum, of norm `multipliers`.
    0 < a < γ is free and chosen best if left out.

    As printed, without the term in λ*: the proof takes ⟨∇PR(θ_PO), θ_t − θ_PO⟩ ≥ 0, which holds for feasible θ_t alone.
    """
    base = _framework(
        rounds, gradient_error, radius, constraint_bound, constraint_lipschitz, lipschitz, control, multipliers, step
    )
    extra = 0.0 if as_printed else base.weight * multipliers**2 / 2

    def bound(share: float) -> float:  # a = share · γ
        return (base.common + gradient_error / (2 * share * convexity) + share**2 * extra) / (1 - share)

    return _best(bound, a, convexity)


def violation(
    rounds: int,
    gradient_error: float,
    *,
    convexity: float,
    radius: float,
    constraint_bound: float,
    constraint_lipschitz: float,
    lipschitz: float,
    control: float,
    multipliers: float = 0.0,
    step: float | None = None,
    a: float | None = None,
    as_printed: bool = False,
) -> float:
    """Lemma 3: ‖[E Σ g(θ_t)]⁺‖₂ ≤ c‖λ*‖ + √(c²‖λ*‖² + 2c(B + G/(2a))), so each Σ g_i too; names and assumptions as in `regret`.

    As printed: √(1+δ)·[(2R + √2C + 2L)√T + (T^¼/√a + √2)√G] with η = 1/√T, which leaves λ* out.
    """
    if as_printed and step is not None:
        raise ValueError(f"`step` must be left out where `as_printed`, whose bound is for 1/√T alone, but got {step=}")
    base = _framework(
        rounds, gradient_error, radius, constraint_bound, constraint_lipschitz, lipschitz, control, multipliers, step
    )

    def bound(share: float) -> float:
        a = share * convexity
        if as_printed:
            simple = (2 * radius + math.sqrt(2) * constraint_bound + 2 * lipschitz) * math.sqrt(rounds)
            learnt = (rounds**0.25 / math.sqrt(a) + math.sqrt(2)) * math.sqrt(gradient_error)
            return math.sqrt(1 + control) * (simple + learnt)
        weighted = base.weight * multipliers
        return weighted + math.sqrt(weighted**2 + 2 * base.weight * (base.common + gradient_error / (2 * a)))

    return _best(bound, a, convexity)


def _best(bound: Callable[[float], float], a: float | None, convexity: float) -> float:
    """The bound at a, or at the best of many a in (0, γ)."""
    if not convexity > 0:
        raise ValueError(f"`convexity` (γ) must be > 0 for Lemma 3, but got {convexity}")
    if a is not None:
        if not 0 < a < convexity:
            raise ValueError(f"`a` must lie in (0, γ) = (0, {convexity:.6g}), but got {a}")
        return bound(a / convexity)
    return min(bound(share / 1000) for share in range(1, 1000))
