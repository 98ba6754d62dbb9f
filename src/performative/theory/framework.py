"""Lemma 3: regret and violation of the robust primal-dual framework, for any error of its gradients.

R is the radius of Θ, C and L_g are the bound and the Lipschitz constant of g, L and γ the Lipschitz and strong-convexity
constants of PR, λ* the multipliers of the optimum, e_t = ∇P̂R_t(θ_t) − ∇PR(θ_t) the gradient error. `docs/theory/slater.md`
derives the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from performative.steps import control_interval
from performative.theory.arguments import require_nonnegative
from performative.validation import positive, whole


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
    step: float | None = None,
    as_printed: bool = False,
) -> float:
    """Lemma 3: Σ (E PR(θ_t) − PR(θ_PO)) ≤ B + G/(2γ), where G = ΣE‖e_t‖² is `gradient_error`.

    With η = `step` (1/√T by default) B = 2R²/η + ηT(C² + 2L²) + ηG. Assumes Assumptions 2 and 3, PR γ-strongly convex and
    L-Lipschitz on Θ, and δ = `control` in `control_interval`; it needs no multipliers.

    As printed: γ/(γ−a) · [B + G/(2a)] at the best 0 < a < γ, which is never smaller. Its proof takes
    ⟨∇PR(θ_PO), θ_t − θ_PO⟩ ≥ 0, which holds for feasible θ_t alone; strong convexity of the Lagrangian needs no such step.

    >>> import performative as pf
    >>> bound = pf.theory.regret(
    ...     10_000, 10.0, convexity=1.0, radius=1.0, constraint_bound=1.0, constraint_lipschitz=1.0, lipschitz=1.0, control=5.0
    ... )
    >>> round(bound)  # O(√T)
    505
    """
    base = _framework(
        rounds, gradient_error, convexity, radius, constraint_bound, constraint_lipschitz, lipschitz, control, step
    )
    if as_printed:  # a = share · γ
        return _best(lambda share: (base.common + gradient_error / (2 * share * convexity)) / (1 - share))
    return base.total


def violation(
    rounds: int,
    gradient_error: float,
    *,
    multipliers: float,
    convexity: float,
    radius: float,
    constraint_bound: float,
    constraint_lipschitz: float,
    lipschitz: float,
    control: float,
    duality_gap: float = 0.0,
    step: float | None = None,
    as_printed: bool = False,
) -> float:
    """Lemma 3: ‖[E Σ g(θ_t)]⁺‖₂ ≤ c‖λ‖ + √(c²‖λ‖² + 2c(B + G/(2γ) + Tε)), so each Σ g_i too; names as in `regret`.

    c = 1/η + δηT. λ ≥ 0 is any vector, of norm `multipliers`, with PR + λᵀg ≥ PR(θ_PO) − ε on Θ, ε its `duality_gap`: 0 for the
    multipliers λ* of the optimum. Those exist under Slater's condition, which the paper does not assume; where there are
    none, `violation_without_slater` bounds the violation. Other assumptions as in `regret`.

    As printed: √(1+δ)·[(2R + √2C + 2L)√T + (T^¼/√a + √2)√G] with η = 1/√T and the best a < γ, which leaves λ* out.

    >>> import performative as pf
    >>> bound = pf.theory.violation(
    ...     10_000, 10.0, multipliers=0.5, convexity=1.0, radius=1.0, constraint_bound=1.0, constraint_lipschitz=1.0,
    ...     lipschitz=1.0, control=5.0,
    ... )
    >>> round(bound)  # O(√T)
    1134
    """
    if as_printed and step is not None:
        raise ValueError(
            f"`step` must be left out with `as_printed=True`, whose bound is for 1/√T alone, but got {step=}"
        )
    if math.isinf(multipliers) and not as_printed:
        raise ValueError(
            f"`multipliers` must be finite, but got {multipliers}: without Slater's condition there may be none, and only "
            "violation_without_slater holds"
        )
    require_nonnegative(multipliers=multipliers, duality_gap=duality_gap)
    base = _framework(
        rounds, gradient_error, convexity, radius, constraint_bound, constraint_lipschitz, lipschitz, control, step
    )
    if as_printed:
        simple = (2 * radius + math.sqrt(2) * constraint_bound + 2 * lipschitz) * math.sqrt(rounds)

        def printed(share: float) -> float:
            learned = (rounds**0.25 / math.sqrt(share * convexity) + math.sqrt(2)) * math.sqrt(gradient_error)
            return math.sqrt(1 + control) * (simple + learned)

        return _best(printed)
    weighted = base.weight * multipliers
    return weighted + math.sqrt(weighted**2 + 2 * base.weight * (base.total + rounds * duality_gap))


def violation_without_slater(
    rounds: int,
    gradient_error: float,
    *,
    convexity: float,
    radius: float,
    constraint_bound: float,
    constraint_lipschitz: float,
    lipschitz: float,
    control: float,
    step: float | None = None,
) -> float:
    """‖[E Σ g(θ_t)]⁺‖₂ ≤ √(2c(B + G/(2γ) + TΔ)), where Δ = max of Ls − γs²/2 over 0 ≤ s ≤ 2R: O(T^(3/4)), with no multipliers.

    Δ bounds PR(θ_PO) − min_Θ PR, so this is `violation` with λ = 0, whose duality gap is at most Δ. Names and assumptions as in
    `regret`. No better power of T holds in general: g = θ^(2k) ≤ 0 makes the violation grow like T^((3k−1)/(4k−1)).

    >>> import performative as pf
    >>> bound = pf.theory.violation_without_slater(
    ...     10_000, 10.0, convexity=1.0, radius=1.0, constraint_bound=1.0, constraint_lipschitz=1.0, lipschitz=1.0, control=5.0
    ... )
    >>> round(bound)  # O(T^(3/4))
    2570
    """
    require_nonnegative(radius=radius, lipschitz=lipschitz)
    apart = min(lipschitz / _convex(convexity), 2 * radius)
    return violation(
        rounds,
        gradient_error,
        multipliers=0.0,
        duality_gap=lipschitz * apart - convexity * apart**2 / 2,
        convexity=convexity,
        radius=radius,
        constraint_bound=constraint_bound,
        constraint_lipschitz=constraint_lipschitz,
        lipschitz=lipschitz,
        control=control,
        step=step,
    )


class _Framework(NamedTuple):
    """What all bounds rest on: B = 2R²/η + ηT(C² + 2L²) + ηG, B + G/(2γ), and c = 1/η + δηT."""

    common: float
    total: float
    weight: float


def _framework(
    rounds: int,
    error: float,
    convexity: float,
    radius: float,
    constraint_bound: float,
    constraint_lipschitz: float,
    lipschitz: float,
    control: float,
    step: float | None,
) -> _Framework:
    rounds = whole("rounds", rounds, 1)
    require_nonnegative(
        gradient_error=error, radius=radius, constraint_bound=constraint_bound, lipschitz=lipschitz, control=control
    )
    eta = 1 / math.sqrt(rounds) if step is None else positive("step", step)
    low, high = control_interval(eta, constraint_lipschitz)
    if not low * (1 - 1e-12) <= control <= high * (1 + 1e-12):
        raise ValueError(
            f"`control` must lie in the interval [{low:.6g}, {high:.6g}] of Lemma 3 for step={eta:.6g} and L_g = "
            f"{constraint_lipschitz:.6g}, but got {control:.6g}"
        )
    common = 2 * radius**2 / eta + eta * rounds * (constraint_bound**2 + 2 * lipschitz**2) + eta * error
    return _Framework(common, common + error / (2 * _convex(convexity)), 1 / eta + control * eta * rounds)


def _convex(convexity: float) -> float:
    if not convexity > 0:
        raise ValueError(f"`convexity` (γ) must be > 0 for Lemma 3, but got {convexity}")
    return convexity


def _best(printed: Callable[[float], float]) -> float:
    """A printed bound at the best of many a = share · γ in (0, γ)."""
    return min(printed(share / 1000) for share in range(1, 1000))
