"""Decisions that change the data they are based on: performative prediction under constraints."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Alone": "exploration",
    "apda": "methods",
    "Around": "exploration",
    "Ball": "sets",
    "Bernoulli": "environments",
    "Box": "sets",
    "ClosedForm": "environments",
    "Budget": "sets",
    "compare": "comparison",
    "confidence_bounds": "field",
    "Deployment": "study",
    "Empirical": "environments",
    "Gaussian": "environments",
    "HalfSpace": "sets",
    "InfeasibleProblem": "optimum",
    "LocationFamily": "environments",
    "LocationGame": "environments",
    "Mixture": "environments",
    "NonFiniteWarning": "simulation",
    "Normal": "environments",
    "NoStrictlyFeasibleDecision": "safety",
    "one_point": "field",
    "oracle": "methods",
    "Pair": "exploration",
    "ParametricFamily": "environments",
    "pd_ps": "methods",
    "perfgd": "field",
    "performative_optimum": "optimum",
    "performative_risk": "risk",
    "Poisson": "environments",
    "PrimalDual": "primal_dual",
    "Problem": "problem",
    "Product": "sets",
    "QuadratureWarning": "environments",
    "Reaction": "environments",
    "Reals": "sets",
    "repeated_gradient": "field",
    "repeated_minimisation": "field",
    "saddle": "field",
    "safe_apda": "methods",
    "score_gradient": "field",
    "Simplex": "sets",
    "simulate": "simulation",
    "Solution": "optimum",
    "Sphere": "exploration",
    "stable_point": "optimum",
    "strategic_response": "environments",
    "Study": "study",
    "two_point": "field",
    "two_stage": "field",
}
_MODULES = (
    "checks",
    "comparison",
    "constraints",
    "environments",
    "estimators",
    "losses",
    "problems",
    "safety",
    "sets",
    "steps",
    "study",
    "theory",
)

__all__ = ["__version__", *sorted(_HOMES), *_MODULES]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the command line must not wait for JAX to say what its options are.
    if name in _HOMES:
        value = getattr(importlib.import_module(f"performative.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"performative.{name}")
    raise AttributeError(f"module 'performative' has no attribute {name!r}")


if TYPE_CHECKING:
    from performative import (
        checks,
        comparison,
        constraints,
        environments,
        estimators,
        losses,
        problems,
        safety,
        sets,
        steps,
        study,
        theory,
    )
    from performative.comparison import compare
    from performative.environments import (
        Bernoulli,
        ClosedForm,
        Empirical,
        Gaussian,
        LocationFamily,
        LocationGame,
        Mixture,
        Normal,
        ParametricFamily,
        Poisson,
        QuadratureWarning,
        Reaction,
        strategic_response,
    )
    from performative.exploration import Alone, Around, Pair, Sphere
    from performative.field import (
        confidence_bounds,
        one_point,
        perfgd,
        repeated_gradient,
        repeated_minimisation,
        saddle,
        score_gradient,
        two_point,
        two_stage,
    )
    from performative.methods import apda, oracle, pd_ps, safe_apda
    from performative.optimum import InfeasibleProblem, Solution, performative_optimum, stable_point
    from performative.primal_dual import PrimalDual
    from performative.problem import Problem
    from performative.risk import performative_risk
    from performative.safety import NoStrictlyFeasibleDecision
    from performative.sets import Ball, Box, Budget, HalfSpace, Product, Reals, Simplex
    from performative.simulation import NonFiniteWarning, simulate
    from performative.study import Deployment, Study
