"""Which of the paper's assumptions a problem meets, and why."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import numpy as np

from performative.numerics.precision import precise
from performative.solvers.convexity import convex_constraint
from performative.solvers.derivatives import constraint_curvature
from performative.theory.evidence import is_proved
from performative.theory.landscape import STARTS, Landscape
from performative.theory.moments import is_isometric
from performative.theory.risk import risk_convexity
from performative.theory.slater import Slater

NEEDED = (
    "2: Θ bounded",
    "3: g convex",
    "3: g Lipschitz and bounded",
    "Slater",
    "4: gradient variance",
    "5: injected noise",
    "location family",
    "PR strongly convex",
    "Lemma 4: quadratic in Z",
)
"""The assumptions of the corrected theorem; of Assumption 1 it needs only what the last two say."""
ZERO = 1e-9
"""Constants and eigenvalues up to this size count as 0."""


class Assumption(NamedTuple):
    """One assumption: its name, what it says, whether it holds (None: undecided), and the evidence.

    >>> import performative as pf
    >>> pf.theory.Assumption("2: Θ bounded", "closed, convex, ‖θ‖ ≤ R", True, "R = 1").holds
    True
    """

    name: str
    statement: str
    holds: bool | None
    evidence: str


def assumptions(
    landscape: Landscape, values: dict[str, float], evidence: dict[str, str], slack: Slater
) -> tuple[Assumption, ...]:
    """Every assumption of the paper and Slater's condition, judged by the constants `values` and the `evidence` for them."""
    return (
        *_of_the_loss(landscape, values, evidence),
        *_of_the_constraints(landscape, values, evidence),
        Assumption("Slater", "g(θ) < 0 for some θ ∈ Θ, so that λ* exists", slack.holds, slack.evidence),
        *_of_the_risk(landscape, values, evidence),
    )


def _of_the_loss(landscape: Landscape, c: dict[str, float], how: dict[str, str]) -> list[Assumption]:
    """Assumption 1."""
    hessians_grow = [
        landscape.grows_with_data(hessian) for hessian in (landscape.mixed_hessian, landscape.data_hessian)
    ]
    slope_grows = landscape.grows_with_data(jax.grad(landscape.problem.loss, 1))
    in_decision, in_data = (_is_positive(c, how, name) for name in ("decision_convexity", "data_convexity"))
    data_convexity = c["data_convexity"]
    strong = c["decision_convexity"] - (c["smoothness"] ** 2 / data_convexity if data_convexity > ZERO else math.inf)
    return [
        Assumption("1: smooth", "ℓ has bounded second derivatives",
                   False if True in hessians_grow else None if None in hessians_grow or not landscape.analytic else True,
                   ("they grow with Z, and the base is unbounded; on the draws " if True in hessians_grow else "")
                   + f"β = {c['smoothness']:.4g} ({how['smoothness']}), β_Z = {c['data_smoothness']:.4g}"),
        Assumption("1: convex in θ", "γ_θ > 0", in_decision,
                   f"γ_θ = {c['decision_convexity']:.4g} ({how['decision_convexity']})"),
        Assumption("1: convex in Z", "γ_Z > 0", in_data, f"γ_Z = {data_convexity:.4g} ({how['data_convexity']})"),
        Assumption("1: Lipschitz in Z", "‖∇_Zℓ‖ ≤ L_Z for all data", None if slope_grows is None else not slope_grows,
                   ("it grows with Z, and the base is unbounded; " if slope_grows else "")
                   + f"L_Z = {c['data_lipschitz']:.4g} ({how['data_lipschitz']})"),
        Assumption("1: γ_θ − β²/γ_Z > 0", "with β across θ and Z",
                   False if not strong > 0 else None if None in (in_decision, in_data) else True,
                   f"γ_θ − β²/γ_Z = {strong:.4g}" if math.isfinite(strong) else "γ_Z = 0"),
    ]  # fmt: skip


def _of_the_constraints(landscape: Landscape, c: dict[str, float], how: dict[str, str]) -> list[Assumption]:
    """Assumptions 2 and 3."""
    lipschitz, bound = c["constraint_lipschitz"], c["constraint_bound"]
    return [
        Assumption("2: Θ bounded", "closed, convex, ‖θ‖ ≤ R", landscape.bounded, f"R = {c['radius']:.4g}"),
        Assumption("3: g convex", "each g_i is convex on Θ", *_convex_constraints(landscape)),
        Assumption("3: g Lipschitz and bounded", "‖∇g‖ ≤ L_g, ‖g‖ ≤ C",
                   math.isfinite(lipschitz) and math.isfinite(bound),
                   f"L_g = {lipschitz:.4g} ({how['constraint_lipschitz']}), C = {bound:.4g}"),
    ]  # fmt: skip


def _of_the_risk(landscape: Landscape, c: dict[str, float], how: dict[str, str]) -> list[Assumption]:
    """Assumptions 4 and 5, and what the proof uses besides them."""
    isometric = is_isometric(landscape.environment, landscape.dimension)
    scale = "; the effect is not as large as the matrix it stands for, which Lemma D1 is about: scale the shift"
    lemma_2 = risk_convexity(
        c["decision_convexity"], max(c["data_convexity"], 0.0), c["smoothness"], c["sensitivity"], c["least_response"]
    )
    return [
        Assumption("4: gradient variance", "n E sup ‖∇P̂R − ∇PR‖² ≤ σ²",
                   True if math.isfinite(c["uniform_variance"]) else False if math.isinf(c["variance"]) else None,
                   f"σ² = {c['variance']:.4g} ({how['variance']}); uniformly {c['uniform_variance']:.4g} "
                   f"({how['uniform_variance']})"),
        Assumption("5: injected noise", "excites every direction", True, "Gaussian probes: κ in closed form"),
        Assumption("location family", "Z = Z₀ + Aθ, Â as large as A", isometric,
                   f"σ_max(A) = {c['sensitivity']:.4g}" + ("" if isometric else scale)),
        Assumption("PR strongly convex", "γ > 0, what Lemma 3 needs of Assumption 1", _is_positive(c, how, "convexity"),
                   f"γ = {c['convexity']:.4g} ({how['convexity']}); Lemma 2 gives at least {lemma_2:.4g}"),
        Assumption("Lemma 4: quadratic in Z", "∇P̂R is quadratic in the effect",
                   True if landscape.degree_in_data <= 2 else None, how["gain"]),
    ]  # fmt: skip


def _is_positive(values: dict[str, float], evidence: dict[str, str], name: str) -> bool | None:
    """Whether a constant is positive. Yes only if that is proved; a value that a search reached can still say no."""
    if not math.isfinite(values[name]):
        return None
    return (True if is_proved(evidence[name]) else None) if values[name] > ZERO else False


def _convex_constraints(landscape: Landscape) -> tuple[bool | None, str]:
    problem = landscape.problem
    with precise():
        proved = all(convex_constraint(problem, item) for item in problem.constraints)
    if proved:
        return True, "each is proved convex" if problem.constraints else "there are none"
    count = len(problem.constraint_names)
    worst = math.inf
    with precise():
        for theta in landscape.points:
            for index in range(count):
                weights = np.eye(count)[index]
                worst = min(worst, float(np.linalg.eigvalsh(constraint_curvature(problem, theta, weights))[0]))
    if worst < -ZERO:
        return False, f"a Hessian of g has the eigenvalue {worst:.4g}"
    return None, f"not proved convex; no Hessian at {STARTS} decisions has an eigenvalue below {worst:.2g}"
