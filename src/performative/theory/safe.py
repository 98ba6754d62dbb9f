"""Why safe decisions have a regret of order √T: two pointwise lemmas and two theorems, with all constants.

F is the feasible set, PR is γ-strongly convex on it, and R̂ is the predicted risk. In the theorems the loss is affine in the data,
ℓ = ψ(θ) + φ(θ)ᵀz, and Z = Ωξ(x) + noise with ξ(x) = (1, (x − a)/r), where the ball of radius r around a lies in F.
`docs/theory/safe.md` has the proofs.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.numerics.precision import in_float64
from performative.theory.arguments import require_nonnegative
from performative.validation import positive, whole


def excess_risk(gradient_error: float, convexity: float) -> float:
    """Lemma 1: PR(θ) − PR(θ_PO) ≤ ‖∇R̂(θ) − ∇PR(θ)‖²/(2γ) where θ ∈ F is stationary for R̂ on F.

    Assumes that PR is γ-strongly convex on F (`convexity`); R̂ need not be convex. `gradient_error` is the norm.

    >>> import performative as pf
    >>> pf.theory.excess_risk(2.0, convexity=4.0)
    0.5
    """
    require_nonnegative(gradient_error=gradient_error)
    return gradient_error**2 / (2 * positive("convexity", convexity))


def probe_excess_risk(price: float, gradient_error: float, convexity: float) -> float:
    """Lemma 2: PR(x) − PR(θ_PO) ≤ 2(R̂(x) − R̂(θ)) + ē²/γ for every x ∈ F, where θ minimizes R̂ over F.

    Assumes that PR and R̂ are γ-strongly convex on F. `price` is R̂(x) − R̂(θ) and `gradient_error` is ē, the largest
    ‖∇R̂ − ∇PR‖ on F.

    >>> import performative as pf
    >>> pf.theory.probe_excess_risk(0.5, 2.0, convexity=4.0)
    2.0
    """
    require_nonnegative(price=price, gradient_error=gradient_error)
    return 2 * price + gradient_error**2 / positive("convexity", convexity)


def forced_probes_pace(*, gain: float, convexity: float, risk_range: float, trace: float, dimension: int) -> float:
    """The c at which the bound of `forced_probes_regret` is least, K√((1 + d²) tr Σ/(γΔ)); names as there.

    >>> import performative as pf
    >>> pf.theory.forced_probes_pace(gain=2.0, convexity=1.0, risk_range=2.0, trace=1.0, dimension=1)
    2.0
    """
    squares = (1 + whole("dimension", dimension, 1) ** 2) * positive("trace", trace)
    return positive("gain", gain) * math.sqrt(
        squares / (positive("convexity", convexity) * positive("risk_range", risk_range))
    )


def forced_probes_regret(
    rounds: int,
    *,
    gain: float,
    convexity: float,
    risk_range: float,
    trace: float,
    dimension: int,
    pace: float | None = None,
) -> float:
    """Theorem 2: E Reg(T) ≤ Δ(c√T + 2d) + K²(1 + d²) tr Σ √T/(γc), for probes at a fixed pace and every world.

    The 2d decisions a ± r e_j are deployed in turn whenever fewer than c√t probes are behind (`pace` is c; if left out, the best
    one), otherwise a stationary point on F of the risk that least squares over the probes alone predicts. `gain` is K with
    ‖∇R̂ − ∇PR‖ ≤ K‖Ω̂ − Ω‖ on F, `risk_range` is Δ, the range of PR on F, and `trace` is tr Σ, the variance of the noise in
    the mean of a deployment.

    >>> import performative as pf
    >>> pf.theory.forced_probes_regret(10_000, gain=2.0, convexity=1.0, risk_range=2.0, trace=1.0, dimension=1)
    804.0
    """
    best = forced_probes_pace(gain=gain, convexity=convexity, risk_range=risk_range, trace=trace, dimension=dimension)
    c = best if pace is None else positive("pace", pace)
    root = math.sqrt(whole("rounds", rounds, 1))
    return risk_range * ((c + best**2 / c) * root + 2 * dimension)


@in_float64
def ignorance(
    rounds: int, *, dimension: int, weight: float, risk_range: float, ridge: float, pace: float = math.inf
) -> Array:
    """Bounds (T,) on Φ_t = ω tr G_t⁻¹ of Theorem 1, t = 1..T.

    Φ_1 = ωδ/λ and Φ_{t+1} = min{Φ_t, max{ωδ/(c√t), Φ_t − ωy²/(1 + 2y) + Δ/t}}, where y = Φ_t/(ωδ) and δ = d + 1.
    `weight` is ω, `ridge` is λ, with G_1 = λI, and `pace` is c; names and assumptions as in `priced_probes_regret`.

    >>> import performative as pf
    >>> bounds = pf.theory.ignorance(10_000, dimension=1, weight=1.0, risk_range=1.0, ridge=1.0)
    >>> float(bounds[0]), round(float(bounds[-1]), 3)
    (2.0, 0.02)
    """
    rounds, size = whole("rounds", rounds, 1), whole("dimension", dimension, 1) + 1.0
    return _ignorance(
        jnp.arange(1.0, rounds + 1.0),
        size,
        positive("weight", weight),
        positive("risk_range", risk_range),
        positive("ridge", ridge),
        math.inf if pace == math.inf else positive("pace", pace),
    )


@jax.jit
def _ignorance(t: Array, size: float, weight: float, risk_range: float, ridge: float, pace: float) -> Array:
    def after(phi: Array, t: Array) -> tuple[Array, Array]:
        y = phi / (weight * size)
        probed = phi - weight * y * y / (1.0 + 2.0 * y) + risk_range / t
        return jnp.minimum(phi, jnp.maximum(weight * size / (pace * jnp.sqrt(t)), probed)), phi

    return lax.scan(after, jnp.asarray(weight * size / ridge), t)[1]


@in_float64
def priced_probes_regret(
    rounds: int,
    *,
    gain: float,
    convexity: float,
    risk_range: float,
    trace: float,
    dimension: int,
    ridge: float,
    weight: float | None = None,
    pace: float = math.inf,
    distance: float | None = None,
    reach: float | None = None,
) -> float:
    """Theorem 1: the regret where a probe is deployed if it is worth its price and estimates rest on all data.

    The least over 0 ≤ τ ≤ T of τΔ + 2τΦ_{τ+1} + Σ_{t>τ} (2 + K²b_t/(γω)) Φ_t, with Φ_t as in `ignorance`; TΔ for τ = T.
    With b_t = tr Σ it bounds E[Reg(T); Ω ∈ C] for Ω drawn from the prior N(Ω₀, Σ ⊗ I/λ) and Gaussian noise.
    With `distance` and `reach` it bounds E Reg(T) for every Ω ∈ C: √b_t = √(δ tr Σ ln(1 + tX²/(δλ))) + √λ‖Ω − Ω₀‖, δ = d + 1.

    Every world in C has a γ-strongly convex risk with a range of at most Δ on F (`risk_range`). `ridge` is λ, `distance` is
    ‖Ω − Ω₀‖ and `reach` is X, the largest ‖ξ‖ on F. `weight` is ω; if left out, K² tr Σ/(2γ), so that Φ is Lemma 1's bound on
    what not knowing costs. Two wide probes are among the candidates whenever the least explored direction has less than c√t of
    information (`pace`), or always. Other names as in `forced_probes_regret`.

    >>> import performative as pf
    >>> names = dict(gain=2.0, convexity=1.0, risk_range=2.0, trace=1.0, dimension=1, ridge=1.0)
    >>> round(pf.theory.priced_probes_regret(10_000, **names))
    3285
    >>> round(pf.theory.priced_probes_regret(1_000_000, **names, distance=1.0, reach=2.0))
    572190
    """
    require_nonnegative(gain=gain, trace=trace)
    gamma, size = positive("convexity", convexity), dimension + 1
    omega = gain**2 * trace / (2 * gamma) if weight is None else weight
    phi = ignorance(rounds, dimension=dimension, weight=omega, risk_range=risk_range, ridge=ridge, pace=pace)
    if (distance is None) != (reach is None):
        raise ValueError(f"`distance` and `reach` must be given together, but got {distance=}, {reach=}")
    spread: Array | float = trace
    if distance is not None and reach is not None:
        require_nonnegative(distance=distance, reach=reach)
        logs = jnp.log1p(jnp.arange(1.0, rounds + 1.0) * reach**2 / (size * ridge))
        spread = (jnp.sqrt(size * trace * logs) + math.sqrt(ridge) * distance) ** 2
    costs = (2.0 + gain**2 * spread / (gamma * omega)) * phi
    before = jnp.arange(float(rounds))
    later = float(jnp.min(before * (risk_range + 2.0 * phi) + jnp.cumsum(costs[::-1])[::-1]))
    return min(rounds * risk_range, later)
