"""The paper's results as functions: the constants of a problem, and the bounds that follow from them; and those of safe APDA.

Each function is the statement that holds; where the printed one differs, `as_printed=True` gives the paper's own. `docs/paper.md`
derives the differences.
"""

from performative.steps import control_interval, least_horizon
from performative.theory.assumptions import Assumption
from performative.theory.estimation import (
    one_step,
    parameter_error,
    parameter_error_at,
    parameter_error_fourth,
    sequence,
)
from performative.theory.framework import regret, violation, violation_without_slater
from performative.theory.gradient import effect_gain, gradient_error
from performative.theory.noise import Noise, noise_constants
from performative.theory.paced import safe_regret, stay_excess_risk, unexplored
from performative.theory.problem_constants import constants
from performative.theory.risk import distance, least_response, risk_convexity, risk_lipschitz, sensitivity
from performative.theory.saddle import dual_gradient, primal_gradient, saddle_gap
from performative.theory.safe import (
    excess_risk,
    forced_probes_pace,
    forced_probes_regret,
    ignorance,
    priced_probes_regret,
    probe_excess_risk,
)
from performative.theory.theorem import Bounds, Constants

__all__ = [
    "Assumption",
    "Bounds",
    "Constants",
    "Noise",
    "constants",
    "control_interval",
    "distance",
    "dual_gradient",
    "effect_gain",
    "excess_risk",
    "forced_probes_pace",
    "forced_probes_regret",
    "gradient_error",
    "ignorance",
    "least_horizon",
    "least_response",
    "noise_constants",
    "one_step",
    "parameter_error",
    "parameter_error_at",
    "parameter_error_fourth",
    "priced_probes_regret",
    "primal_gradient",
    "probe_excess_risk",
    "regret",
    "risk_convexity",
    "risk_lipschitz",
    "saddle_gap",
    "safe_regret",
    "sensitivity",
    "sequence",
    "stay_excess_risk",
    "unexplored",
    "violation",
    "violation_without_slater",
]
