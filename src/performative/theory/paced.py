"""Why Safe APDA, as it is implemented, has a regret of order √T log T: two lemmas and Theorem 3, with all constants.

Decisions are measured in widths. `docs/theory/safe.md` has the proofs and the assumptions; names are as in `theory.safe`.
"""

from __future__ import annotations

import math

import numpy as np

from performative.theory.arguments import require_nonnegative
from performative.validation import positive, whole

APART = 4096
"""The most rounds that plans are apart."""
FIRST = 256
"""The round from which on probes are paced, and no deployments fade."""
FADES = 0.65
"""How much of one deployment's worth each new one takes off the old ones, where these are outgrown."""


def stay_excess_risk(standard_error: float, gradient_error: float, residual: float, convexity: float) -> float:
    """Lemma 3: PR(s) − PR(θ_PO) ≤ (3q² + 2a²)/γ where staying at s looks as good as the planned θ, up to standard errors.

    R̂(s) − R̂(θ) ≤ σ‖θ − s‖ with σ the `standard_error`, ‖∇R̂ − ∇PR‖ ≤ ē on F (`gradient_error`), and −∇R̂(θ) lies within the
    `residual` of the normal cone of F at θ; q = σ + ē and a = ē + residual. Assumes that PR is γ-strongly convex on F.

    >>> import performative as pf
    >>> pf.theory.stay_excess_risk(1.0, 1.0, 0.0, convexity=2.0)
    7.0
    """
    require_nonnegative(standard_error=standard_error, gradient_error=gradient_error, residual=residual)
    q, a = standard_error + gradient_error, gradient_error + residual
    return (3 * q**2 + 2 * a**2) / positive("convexity", convexity)


def unexplored(
    *,
    dimension: int,
    reach: float,
    length: float,
    relative: tuple[float, float],
    pace: float = 0.001,
    settled: int = FIRST,
) -> float:
    """Lemma 4: the B of tr(S_t + r₋I)⁻¹ ≤ B/√t, where S_t is the scatter of what `safe_apda` deployed before round t.

    B = 2w d/(c r₋) with w = max(1, c√T₁), where T₁ ≥ max(8192, 1/c², T₀) is the least with T₁ > 16,384 L and √T₁ > 16 c r₊ L/ρ²,
    for L = d ln(2wA) and A = 16X²d(1/(2r₋) + r₊/(r₋ρ²)). `reach` is X, the diameter of F, `length` is ρ, how far wide probes go,
    `relative` is (r₋, r₊), between which the noise over the weakest expected effects stays, `pace` is c, and `settled` is T₀,
    from which round on the ranges of coordinates stay.

    >>> import performative as pf
    >>> pf.theory.unexplored(dimension=1, reach=1.0, length=0.5, relative=(0.5, 0.5))
    4000.0
    """
    d, x, rho, c = (
        whole("dimension", dimension, 1),
        positive("reach", reach),
        positive("length", length),
        positive("pace", pace),
    )
    low, high = (positive("relative", value) for value in relative)
    start = max(2.0 * APART, 1.0 / c**2, float(whole("settled", settled, FIRST)))
    while True:
        slow = max(1.0, c * math.sqrt(start))
        gained = d * math.log(2 * slow * 16 * x**2 * d * (0.5 / low + high / (low * rho**2)))
        if start > 4 * APART * gained and math.sqrt(start) > 16 * c * high * gained / rho**2:
            return 2 * slow * d / (c * low)
        start *= 1.01


def safe_regret(
    rounds: int,
    *,
    gain: float,
    convexity: float,
    risk_range: float,
    trace: float,
    dimension: int,
    data: int,
    reach: float,
    length: float,
    relative: tuple[float, float],
    ridge: tuple[float, float],
    noise: float,
    unit: tuple[float, float],
    distance: float,
    residuals: float = 0.0,
    held: float = 0.0,
    left: float | None = None,
    pace: float = 0.001,
    allowed: float = 10.0,
    settled: int = FIRST,
) -> float:
    """Theorem 3: E Reg(T) of `safe_apda` as it is implemented, O(√T log T) + 6Σε_t²/γ.

    T₀Δ + Δ(N + H) + C u₊√T + Σ_{T₀≤t≤T} ((12/γ + 1/(2u₋)) K²b_t p_t + 86 k K²s p_t/γ) + 6Σε_t²/γ, at most TΔ, where

    N = 16 d ln(16X²/(h r₋))/h with h = min(2, ρ²/(c r₊√T)) bounds the rounds of wide probes,
    p_t = √2(1 + X²)max(1, r₋/λ₋)B/√t + 6/t, with B from `unexplored`, what is not known,
    √b_t = √(tr Σ (1 + ln t + (d + 1) κ ln 256 + d ln(1 + tX²/(dλ₋)))) + √λ₊ ‖A − A₀‖, κ = 13/7 for what fades.

    `data` is k, how many numbers a sample has, `ridge` is (λ₋, λ₊), between which the noise of a deployment over the variances
    of the prior stays, `noise` is s, at most which the former is estimated, its misfit included, `unit` is (u₋, u₊), between
    which the unit of the allowance stays, `allowed` is C, and `distance` is ‖A − A₀‖. `residuals` is Σε_t², what the solver
    leaves, and `held` is H, the rounds for which the budget holds a wide probe back: both are counted along runs. So may B be,
    as the largest √t tr(S_t + r₋I)⁻¹ (`left`). Other names are as in `unexplored` and `forced_probes_regret`.

    >>> import performative as pf
    >>> names = dict(gain=3.0, convexity=6.0, risk_range=0.75, trace=1.0, dimension=1, data=1, reach=1.0, length=0.5)
    >>> belief = dict(relative=(0.4, 0.5), ridge=(0.2, 0.5), noise=1.1, unit=(2.0, 3.0), distance=2.0)
    >>> [f"{pf.theory.safe_regret(rounds, **names, **belief):.1e}" for rounds in (10**6, 10**18)]
    ['7.5e+05', '1.7e+17']
    """
    rounds, d = whole("rounds", rounds, 1), whole("dimension", dimension, 1)
    require_nonnegative(gain=gain, trace=trace, noise=noise, distance=distance, residuals=residuals, held=held)
    gamma, worst = positive("convexity", convexity), rounds * positive("risk_range", risk_range)
    low, high = _range("relative", relative)
    least, most = _range("ridge", ridge)
    small, large = _range("unit", unit)
    data, reach, length = whole("data", data, 1), positive("reach", reach), positive("length", length)
    pace, allowed, settled = positive("pace", pace), positive("allowed", allowed), whole("settled", settled, FIRST)
    bound = (
        positive("left", left)
        if left is not None
        else unexplored(dimension=d, reach=reach, length=length, relative=relative, pace=pace, settled=settled)
    )
    root = math.sqrt(rounds)
    h = min(2.0, length**2 / (pace * high * root))
    wide = 16 * d * max(math.log(16 * reach**2 / (h * low)), 0.0) / h
    # b_t grows, and 1/√t and 1/t sum to at most 2√T and 1 + ln T.
    logs = (
        1
        + math.log(rounds)
        + (d + 1) * FADES / (1.0 - FADES) * math.log(FIRST)
        + d * math.log1p(rounds * reach**2 / (d * least))
    )
    spread = (math.sqrt(trace * logs) + math.sqrt(most) * distance) ** 2
    unknown = math.sqrt(8) * (1 + reach**2) * max(1.0, low / least) * bound * root + 6 * (1 + math.log(rounds))
    errors = gain**2 * ((12 / gamma + 0.5 / small) * spread + 86 * data * noise / gamma) * unknown
    later = risk_range * (settled + wide + held) + allowed * large * root + errors + 6 * residuals / gamma
    return float(np.minimum(worst, later))


def _range(name: str, ends: tuple[float, float]) -> tuple[float, float]:
    low, high = (positive(name, end) for end in ends)
    if not low <= high:
        raise ValueError(f"`{name}` must be two numbers, the smaller one first, but got {ends}")
    return low, high
