"""Decisions that change the data they are based on: performative prediction under constraints."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Alone": "exploration",
    "AlreadyTold": "errors",
    "apda": "methods.paper",
    "Around": "exploration",
    "Ball": "sets",
    "Bernoulli": "environments",
    "Box": "sets",
    "Budget": "sets",
    "ClosedForm": "environments",
    "compare": "comparison",
    "confidence_bounds": "methods.confidence_bounds",
    "Deployment": "study",
    "Empirical": "environments",
    "Gaussian": "environments",
    "HalfSpace": "sets",
    "InfeasibleProblem": "errors",
    "LocationFamily": "environments",
    "LocationGame": "environments",
    "Mixture": "environments",
    "NonFiniteWarning": "errors",
    "Normal": "environments",
    "NoStrictlyFeasibleDecision": "errors",
    "NotConforming": "errors",
    "NotReproduced": "errors",
    "one_point": "methods.zeroth_order",
    "oracle": "methods.paper",
    "OtherMethod": "errors",
    "Pair": "exploration",
    "PairInside": "exploration",
    "ParametricFamily": "environments",
    "pd_ps": "methods.paper",
    "perfgd": "methods.perfgd",
    "performative_optimum": "truth.optimum",
    "performative_risk": "truth.risk",
    "PerformativeError": "errors",
    "plot": "plotting",
    "Poisson": "environments",
    "PrimalDual": "methods.primal_dual",
    "Problem": "problem",
    "Product": "sets",
    "QuadratureWarning": "errors",
    "Reaction": "environments",
    "Reals": "sets",
    "repeated_gradient": "methods.repeated_gradient",
    "repeated_minimization": "methods.repeated_minimization",
    "saddle": "methods.saddle",
    "safe_apda": "methods.safe_apda",
    "score_gradient": "methods.score_gradient",
    "Simplex": "sets",
    "simulate": "simulation.simulate",
    "Solution": "solvers.kkt",
    "SolverFailed": "errors",
    "SpecError": "errors",
    "Sphere": "exploration",
    "stable_point": "truth.stable_point",
    "strategic_response": "environments",
    "Study": "study",
    "StudyBusy": "errors",
    "StudyDamaged": "errors",
    "StudyError": "errors",
    "two_point": "methods.zeroth_order",
    "two_stage": "methods.two_stage",
}
_MODULES = (
    "checks",
    "comparison",
    "constraints",
    "environments",
    "estimators",
    "losses",
    "plotting",
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
    folded = {one.lower(): one for one in (*_HOMES, *_MODULES)}
    near = [folded[one] for one in difflib.get_close_matches(name.lower(), folded, n=1)]
    raise AttributeError(
        f"module 'performative' has no attribute {name!r}" + "".join(f"; did you mean {near[0]!r}?" for _ in near)
    )


if TYPE_CHECKING:
    from performative import (
        checks,
        comparison,
        constraints,
        environments,
        estimators,
        losses,
        plotting,
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
        Reaction,
        strategic_response,
    )
    from performative.errors import (
        AlreadyTold,
        InfeasibleProblem,
        NonFiniteWarning,
        NoStrictlyFeasibleDecision,
        NotConforming,
        NotReproduced,
        OtherMethod,
        PerformativeError,
        QuadratureWarning,
        SolverFailed,
        SpecError,
        StudyBusy,
        StudyDamaged,
        StudyError,
    )
    from performative.exploration import Alone, Around, Pair, PairInside, Sphere
    from performative.methods.confidence_bounds import confidence_bounds
    from performative.methods.paper import apda, oracle, pd_ps
    from performative.methods.perfgd import perfgd
    from performative.methods.primal_dual import PrimalDual
    from performative.methods.repeated_gradient import repeated_gradient
    from performative.methods.repeated_minimization import repeated_minimization
    from performative.methods.saddle import saddle
    from performative.methods.safe_apda import safe_apda
    from performative.methods.score_gradient import score_gradient
    from performative.methods.two_stage import two_stage
    from performative.methods.zeroth_order import one_point, two_point
    from performative.plotting import plot
    from performative.problem import Problem
    from performative.sets import Ball, Box, Budget, HalfSpace, Product, Reals, Simplex
    from performative.simulation.simulate import simulate
    from performative.solvers.kkt import Solution
    from performative.study import Deployment, Study
    from performative.truth.optimum import performative_optimum
    from performative.truth.risk import performative_risk
    from performative.truth.stable_point import stable_point
