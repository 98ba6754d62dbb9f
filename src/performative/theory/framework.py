"""Lemma 3: regret and violation of the robust primal-dual framework, for any error of its gradients.

R is the radius of Θ, C and L_g are the bound and the Lipschitz constant of g, L and γ the Lipschitz and strong-convexity
constants of PR, λ* the multipliers of the optimum, e_t = ∇P̂R_t(θ_t) − ∇PR(θ_t) the gradient error.
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
    multipliers: float = 0.0,
    step: float | None = None,
    a: float | None = None,
    as_printed: bool = False,
) -> float:
    """Lemma 3: Σ (E PR(θ_t) − PR(θ_PO)) ≤ γ/(γ−a) · [B + G/(2a) + c (a/γ)² ‖λ*‖²/2], where G = ΣE‖e_t‖² is `gradient_error`.

    With η = `step` (1/√T by default) B = 2R²/η + ηT(C² + 2L²) + ηG and c = 1/η + δηT. Assumes Assumptions 2 and 3, PR γ-strongly
    convex and L-Lipschitz on Θ, δ = `control` in `control_interval`, and multipliers λ* at the optimum, of norm `multipliers`.
    0 < a < γ is free; if left out, the best one is taken.

    As printed, the term in λ* is missing: the proof takes ⟨∇PR(θ_PO), θ_t − θ_PO⟩ ≥ 0, which holds for feasible θ_t alone.

    >>> import performative as pf
    >>> bound = pf.theory.regret(
    ...     10_000, 10.0, convexity=1.0, radius=1.0, constraint_bound=1.0, constraint_lipschitz=1.0, lipschitz=1.0, control=5.0
    ... )
    >>> round(bound)  # O(√T)
    611
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

    >>> import performative as pf
    >>> bound = pf.theory.violation(
    ...     10_000, 10.0, convexity=1.0, radius=1.0, constraint_bound=1.0, constraint_lipschitz=1.0, lipschitz=1.0, control=5.0
    ... )
    >>> round(bound)  # O(√T)
    779
    """
    if as_printed and step is not None:
        raise ValueError(
            f"`step` must be left out with `as_printed=True`, whose bound is for 1/√T alone, but got {step=}"
        )
    base = _framework(
        rounds, gradient_error, radius, constraint_bound, constraint_lipschitz, lipschitz, control, multipliers, step
    )

    def bound(share: float) -> float:
        a = share * convexity
        if as_printed:
            simple = (2 * radius + math.sqrt(2) * constraint_bound + 2 * lipschitz) * math.sqrt(rounds)
            learned = (rounds**0.25 / math.sqrt(a) + math.sqrt(2)) * math.sqrt(gradient_error)
            return math.sqrt(1 + control) * (simple + learned)
        weighted = base.weight * multipliers
        return weighted + math.sqrt(weighted**2 + 2 * base.weight * (base.common + gradient_error / (2 * a)))

    return _best(bound, a, convexity)


class _Framework(NamedTuple):
    """What both bounds rest on: B = 2R²/η + ηT(C² + 2L²) + ηG and c = 1/η + δηT."""

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
    require_nonnegative(
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


def _best(bound: Callable[[float], float], a: float | None, convexity: float) -> float:
    """The bound at a, or at the best of many a in (0, γ)."""
    if not convexity > 0:
        raise ValueError(f"`convexity` (γ) must be > 0 for Lemma 3, but got {convexity}")
    if a is not None:
        if not 0 < a < convexity:
            raise ValueError(f"`a` must lie in (0, γ) = (0, {convexity:.6g}), but got {a}")
        return bound(a / convexity)
    return min(bound(share / 1000) for share in range(1, 1000))
