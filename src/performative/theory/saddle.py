"""Lemmas C1 and C2: what a run's primal and dual steps add up to, for any θ ∈ Θ and λ ≥ 0.

L(θ, λ) = PR(θ) + λᵀg(θ) − δη/2·‖λ‖² is the regularized Lagrangian and e_t = ∇P̂R_t(θ_t) − ∇PR(θ_t) the gradient error.
"""

from __future__ import annotations

from performative.theory.arguments import require_nonnegative
from performative.validation import positive


def saddle_gap(
    *,
    radius: float,
    multipliers: float,
    step: float,
    dual_squares: float,
    primal_squares: float,
    errors: float,
    convexity: float = 0.0,
    distances: float = 0.0,
) -> float:
    """Lemma C1: Σ (L(θ_t, λ) − L(θ, λ_t)) ≤ (2R² + ‖λ‖²/2)/η + η/2·(P + D) − Σ⟨θ_t − θ, e_t⟩ − γ/2·Σ‖θ_t − θ‖².

    P = Σ‖∇_θL̂_t‖² is `primal_squares` and D = Σ‖∇_λL‖² is `dual_squares`, both at (θ_t, λ_t); `errors` is Σ⟨θ_t − θ, e_t⟩,
    `distances` is Σ‖θ_t − θ‖², `multipliers` is ‖λ‖. Assumes Assumptions 2 and 3, PR γ-strongly convex (`convexity`) and λ_1 = 0.

    As printed: without the last term, which the proof of Lemma 3 then misses (`convexity` 0).

    >>> import performative as pf
    >>> pf.theory.saddle_gap(radius=1.0, multipliers=2.0, step=0.5, dual_squares=4.0, primal_squares=8.0, errors=1.0)
    10.0
    """
    require_nonnegative(
        radius=radius,
        multipliers=multipliers,
        dual_squares=dual_squares,
        primal_squares=primal_squares,
        convexity=convexity,
        distances=distances,
    )
    eta = positive("step", step)
    start = (2 * radius**2 + multipliers**2 / 2) / eta
    return start + eta / 2 * (dual_squares + primal_squares) - errors - convexity / 2 * distances


def dual_gradient(constraint_bound: float, control: float, step: float, multipliers: float) -> float:
    """Lemma C2, first part: ‖∇_λL(θ_t, λ_t)‖² ≤ 2C² + 2δ²η²‖λ_t‖², where ‖λ_t‖ is `multipliers`.

    >>> import performative as pf
    >>> pf.theory.dual_gradient(constraint_bound=1.0, control=4.0, step=0.5, multipliers=1.0)
    10.0
    """
    return 2 * constraint_bound**2 + 2 * (control * step * multipliers) ** 2


def primal_gradient(lipschitz: float, constraint_lipschitz: float, multipliers: float, gradient_error: float) -> float:
    """Lemma C2, second part: ‖∇_θL̂_t(θ_t, λ_t)‖² ≤ 4L² + 4L_g²‖λ_t‖² + 2‖e_t‖², where ‖e_t‖² is `gradient_error`.

    >>> import performative as pf
    >>> pf.theory.primal_gradient(lipschitz=1.0, constraint_lipschitz=0.5, multipliers=2.0, gradient_error=1.0)
    10.0
    """
    return 4 * lipschitz**2 + 4 * (constraint_lipschitz * multipliers) ** 2 + 2 * gradient_error
