"""The paper's results as functions: constants of a problem, and the bounds that follow from them.

Each function is the statement that holds; where the print differs, `as_printed=True` gives the paper's own. `docs/paper.md`
derives the differences.
"""

from performative.steps import control_interval, least_horizon
from performative.theory.assumptions import Assumption, Bounds, Constants, constants
from performative.theory.bounds import (
    Noise,
    effect_gain,
    gradient_error,
    least_response,
    noise_constants,
    parameter_error,
    parameter_error_at,
    parameter_error_fourth,
    regret,
    risk_convexity,
    risk_lipschitz,
    sensitivity,
    violation,
)

__all__ = [
    "Assumption",
    "Bounds",
    "Constants",
    "Noise",
    "constants",
    "control_interval",
    "effect_gain",
    "gradient_error",
    "least_horizon",
    "least_response",
    "noise_constants",
    "parameter_error",
    "parameter_error_at",
    "parameter_error_fourth",
    "regret",
    "risk_convexity",
    "risk_lipschitz",
    "sensitivity",
    "violation",
]
