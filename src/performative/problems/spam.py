"""A spam filter whose spammers adapt."""

from __future__ import annotations

import numpy as np
from jax.tree_util import Partial

from performative.environments import Empirical, strategic_response
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.problems.case import Case, kkt_point, stable_kkt_point
from performative.problems.strategic_scoring import Scoring, loss
from performative.sets import Ball
from performative.validation import positive

ROWS = 100
TYPICAL = np.array([1.2, 0.8])
"""The features of spam, on average; other messages average 0."""


def table() -> Floats:
    """A hundred messages (x₁, x₂, y), always the same, two in five of them spam."""
    random = np.random.default_rng(2023)
    y = (np.arange(ROWS) % 5 < 2).astype(np.float64)
    return np.column_stack([y[:, None] * TYPICAL + random.normal(size=(ROWS, 2)), y])


def make(ease: float = 0.8, penalty: float = 0.1) -> Case:
    """Weights and an intercept θ = (w, b) score messages; spammers (y = 1) move x to x − e w; logistic loss + ½ρ‖θ‖².

        PR(θ) = mean over y = 0 of log(1 + eˢ) + mean over y = 1 of log(1 + exp(e‖w‖² − s)) + ½ρ‖θ‖²,    s = ⟨w, x⟩ + b,

    where each mean is a sum divided by the number of all messages. log(1 + exp ·) is convex and rises, so PR is strongly
    convex. Newton's method finds both points (see `strategic_scoring`). PR(0) = log 2 is also the risk of 0 on any data, hence
    ½ρ‖θ‖² < log 2 at either point, and they lie inside Θ, the ball of radius √(2 log 2/ρ).
    """
    ease, rho = positive("ease", ease), positive("penalty", penalty)
    messages = table()
    x, y = messages[:, :2], messages[:, 2]
    scoring = Scoring(x, y, y, np.full(2, ease), np.full(3, rho))
    problem = Problem(Partial(loss, np.full(3, rho)), Ball(np.sqrt(2 * np.log(2.0) / rho)), dimension=3)
    stable = scoring.stable()
    return Case(
        name="spam",
        title="A spam filter whose spammers adapt",
        reference="Hardt, Megiddo, Papadimitriou and Wootters 2016, Strategic Classification; Perdomo et al. 2020",
        problem=problem,
        environment=strategic_response(Empirical(messages), ease=ease, wanted=-1, label=1.0),
        risk=scoring.risk,
        optimum=kkt_point(problem, scoring.risk, lambda theta: scoring.field(theta, 2.0)[0], scoring.optimum()),
        stable=stable_kkt_point(problem, scoring.risk, lambda theta: scoring.frozen(theta, stable), stable),
    )
