"""Lemma 4: the error of the approximate gradient, from that of the base samples and that of the effect.

D_t = Â_t − A is the parameter error, e_t = ∇P̂R_t(θ_t) − ∇PR(θ_t) the gradient error, R the radius of Θ.
"""

from __future__ import annotations

from performative.theory.arguments import require_nonnegative
from performative.validation import whole


def effect_gain(
    smoothness: float, data_smoothness: float, data_lipschitz: float, sensitivity: float, radius: float
) -> tuple[float, float]:
    """(K₁, K₂) with ‖∇P̂R_t(θ) − ∇P̂R(θ)‖ ≤ K₁‖D‖ + K₂‖D‖² on Θ, from the constants of the loss.

    K₁ = (β + σ_max β_Z)R + L_Z and K₂ = β_Z R. Assumes ‖∇_θℓ(θ; z) − ∇_θℓ(θ; z')‖ ≤ β‖z − z'‖ (`smoothness`), the same for ∇_Zℓ
    with β_Z (`data_smoothness`), and ‖∇_Zℓ(θ; Z)‖ ≤ L_Z on average over the base samples with the true effect.

    >>> import performative as pf
    >>> pf.theory.effect_gain(smoothness=1.0, data_smoothness=0.5, data_lipschitz=2.0, sensitivity=1.0, radius=2.0)
    (5.0, 1.0)
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

    >>> import performative as pf
    >>> pf.theory.gradient_error(
    ...     100, warmup=10, variance=1.0, smoothness=1.0, data_smoothness=0.0, data_lipschitz=1.0, sensitivity=0.5,
    ...     radius=1.0, parameter_error=3.0,
    ... )
    44.0
    """
    require_nonnegative(variance=variance, parameter_error=parameter_error, radius=radius)
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
