"""Credit scoring of applicants who all adapt, with and without a penalty on the intercept."""

from __future__ import annotations

import numpy as np
from jax.tree_util import Partial
from scipy import special

from performative.environments import Empirical, strategic_response
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.problems.case import Case, kkt_point, stable_kkt_point
from performative.problems.strategic_scoring import Scoring, loss
from performative.sets import Ball
from performative.validation import positive

ROWS = 100
STRATEGIC = np.array([1.0, 1.0, 0.0])
"""B: the third feature cannot be moved."""
RADIUS = 5.0
LEAST_PENALTY = 0.06


def table() -> Floats:
    """A hundred applicants (x₁, x₂, x₃, y), always the same; y = 1 for those who will default."""
    random = np.random.default_rng(2020)
    x = random.normal(size=(ROWS, 3))
    chance = special.expit(x @ np.array([1.5, -1.0, 0.8]) + 0.5)
    return np.column_stack([x, random.uniform(size=ROWS) < chance])


def make(intercept: str = "penalized", strength: float = 1.0, penalty: float = 0.1) -> Case:
    """Weights and an intercept θ = (w, b) score applicants, who move x to x − εBw; logistic loss + ½ρ‖w‖² (+ ½ρb²).

    With F(w, c) the logistic loss of the score ⟨w, x⟩ + c on the table as it is, plus ½ρ‖w‖², which is convex,

        PR(w, b) = F(w, b − ε wᵀBw)  (+ ½ρb²).

    `intercept="free"`, a ridge on the weights only, is the field's usual benchmark, and it is degenerate: the intercept
    absorbs the shift, so that the stable point *is* the optimum, for every ε. Proof, with ℓ' = sigmoid(s) − y: on frozen data
    the derivative in b is E ℓ', and in w it is E[ℓ'(x − εBw)] + ρw; where the first vanishes the second is E[ℓ' x] + ρw. PR
    has the derivatives E ℓ' and E[ℓ'(x − 2εBw)] + ρw, which vanish together at the same (w, b): there ∇F(w, c) = 0 with
    c = b − ε wᵀBw. F has one such point, so PR, though not convex in (w, b), has one stationary point, its global minimum.

    `intercept="penalized"` sets E ℓ' = −ρb instead, and the two points part. PR is not convex, but a stationary point with
    b ≥ 0, as on this table, is the global minimum: in (w, c), F(w, c) + ½ρ max(c + ε wᵀBw, 0)² is convex, lies nowhere above
    PR, and touches it there with the same gradient.

    Since PR(0) = log 2, ½ρ‖w‖² < log 2 (½ρ‖θ‖² if penalized), so that Θ, the ball of radius 5, requires ρ ≥ 0.06. A free
    intercept leaves Θ where ε, the `strength`, exceeds about 3, which is refused.
    """
    if intercept not in ("penalized", "free"):
        raise ValueError(f"`intercept` must be 'penalized' or 'free', but got {intercept!r}")
    ease, rho = positive("strength", strength) * STRATEGIC, positive("penalty", penalty)
    if not rho >= LEAST_PENALTY:
        raise ValueError(f"`penalty >= {LEAST_PENALTY}` must hold, but got penalty={rho}")
    penalties = np.array([rho, rho, rho, 0.0 if intercept == "free" else rho])
    applicants = table()
    scoring = Scoring(applicants[:, :3], applicants[:, 3], np.ones(ROWS), ease, penalties)
    problem = Problem(Partial(loss, penalties), Ball(RADIUS), dimension=4)
    best, stable = scoring.optimum(), scoring.stable()
    return Case(
        name="credit with a free intercept" if intercept == "free" else "credit",
        title="Credit scoring of applicants who adapt",
        reference="Perdomo, Zrnic, Mendler-Dünner and Hardt 2020, Performative Prediction: strategic classification",
        problem=problem,
        environment=strategic_response(Empirical(applicants), ease=ease, wanted=-1),
        risk=scoring.risk,
        optimum=kkt_point(problem, scoring.risk, lambda theta: scoring.field(theta, 2.0)[0], best),
        stable=stable_kkt_point(problem, scoring.risk, lambda theta: scoring.frozen(theta, stable), stable),
    )
