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
    "ChangedFunction": "errors",
    "ClosedForm": "environments",
    "compare": "comparison",
    "confidence_bounds": "methods.confidence_bounds",
    "Deployment": "study",
    "DistantHistoryWarning": "errors",
    "Drifting": "environments",
    "Empirical": "environments",
    "Gaussian": "environments",
    "HalfSpace": "sets",
    "HeldBack": "errors",
    "HostWorld": "environments",
    "induced": "truth.induced",
    "InfeasibleProblem": "errors",
    "InfeasibleStartWarning": "errors",
    "least_squares": "methods.least_squares",
    "LocalOptimumWarning": "errors",
    "LocationFamily": "environments",
    "LocationGame": "environments",
    "Mixture": "environments",
    "NonFiniteWarning": "errors",
    "Normal": "environments",
    "NoStrictlyFeasibleDecision": "errors",
    "NotConforming": "errors",
    "NotPure": "errors",
    "NotReproduced": "errors",
    "one_point": "methods.zeroth_order",
    "oracle": "methods.paper",
    "OtherMethod": "errors",
    "Pair": "exploration",
    "PairInside": "exploration",
    "ParametricFamily": "environments",
    "Past": "past",
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
    "SimulatorFailed": "errors",
    "Solution": "solvers.kkt",
    "SolverFailed": "errors",
    "SpecError": "errors",
    "Sphere": "exploration",
    "stable_point": "truth.stable_point",
    "stay": "methods.stay",
    "strategic_response": "environments",
    "SameProposalWarning": "errors",
    "Study": "study",
    "StudyBusy": "errors",
    "StudyDamaged": "errors",
    "StudyError": "errors",
    "StudyWarning": "errors",
    "thompson": "methods.thompson",
    "two_point": "methods.zeroth_order",
    "two_stage": "methods.two_stage",
    "UnboundedProblem": "errors",
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

_RENAMED = {"repeated_minimisation": "repeated_minimization"}

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
    hint = (
        f"; it is now {_RENAMED[name]!r}" if name in _RENAMED else "".join(f"; did you mean {one!r}?" for one in near)
    )
    raise AttributeError(f"module 'performative' has no attribute {name!r}{hint}")


if TYPE_CHECKING:  # "as" tells type checkers that the names are lent out
    from performative import (
        checks as checks,
        comparison as comparison,
        constraints as constraints,
        environments as environments,
        estimators as estimators,
        losses as losses,
        plotting as plotting,
        problems as problems,
        safety as safety,
        sets as sets,
        steps as steps,
        study as study,
        theory as theory,
    )
    from performative.comparison import compare as compare
    from performative.environments import (
        Bernoulli as Bernoulli,
        ClosedForm as ClosedForm,
        Drifting as Drifting,
        Empirical as Empirical,
        Gaussian as Gaussian,
        HostWorld as HostWorld,
        LocationFamily as LocationFamily,
        LocationGame as LocationGame,
        Mixture as Mixture,
        Normal as Normal,
        ParametricFamily as ParametricFamily,
        Poisson as Poisson,
        Reaction as Reaction,
        strategic_response as strategic_response,
    )
    from performative.errors import (
        AlreadyTold as AlreadyTold,
        ChangedFunction as ChangedFunction,
        DistantHistoryWarning as DistantHistoryWarning,
        HeldBack as HeldBack,
        InfeasibleProblem as InfeasibleProblem,
        InfeasibleStartWarning as InfeasibleStartWarning,
        LocalOptimumWarning as LocalOptimumWarning,
        NonFiniteWarning as NonFiniteWarning,
        NoStrictlyFeasibleDecision as NoStrictlyFeasibleDecision,
        NotConforming as NotConforming,
        NotPure as NotPure,
        NotReproduced as NotReproduced,
        OtherMethod as OtherMethod,
        PerformativeError as PerformativeError,
        QuadratureWarning as QuadratureWarning,
        SimulatorFailed as SimulatorFailed,
        SolverFailed as SolverFailed,
        SpecError as SpecError,
        SameProposalWarning as SameProposalWarning,
        StudyBusy as StudyBusy,
        StudyDamaged as StudyDamaged,
        StudyError as StudyError,
        StudyWarning as StudyWarning,
        UnboundedProblem as UnboundedProblem,
    )
    from performative.exploration import (
        Alone as Alone,
        Around as Around,
        Pair as Pair,
        PairInside as PairInside,
        Sphere as Sphere,
    )
    from performative.methods.confidence_bounds import confidence_bounds as confidence_bounds
    from performative.methods.least_squares import least_squares as least_squares
    from performative.methods.paper import (
        apda as apda,
        oracle as oracle,
        pd_ps as pd_ps,
    )
    from performative.methods.perfgd import perfgd as perfgd
    from performative.methods.primal_dual import PrimalDual as PrimalDual
    from performative.methods.repeated_gradient import repeated_gradient as repeated_gradient
    from performative.methods.repeated_minimization import repeated_minimization as repeated_minimization
    from performative.methods.saddle import saddle as saddle
    from performative.methods.safe_apda import safe_apda as safe_apda
    from performative.methods.score_gradient import score_gradient as score_gradient
    from performative.methods.stay import stay as stay
    from performative.methods.thompson import thompson as thompson
    from performative.methods.two_stage import two_stage as two_stage
    from performative.methods.zeroth_order import (
        one_point as one_point,
        two_point as two_point,
    )
    from performative.past import Past as Past
    from performative.plotting import plot as plot
    from performative.problem import Problem as Problem
    from performative.sets import (
        Ball as Ball,
        Box as Box,
        Budget as Budget,
        HalfSpace as HalfSpace,
        Product as Product,
        Reals as Reals,
        Simplex as Simplex,
    )
    from performative.simulation.simulate import simulate as simulate
    from performative.solvers.kkt import Solution as Solution
    from performative.study import (
        Deployment as Deployment,
        Study as Study,
    )
    from performative.truth.induced import induced as induced
    from performative.truth.optimum import performative_optimum as performative_optimum
    from performative.truth.risk import performative_risk as performative_risk
    from performative.truth.stable_point import stable_point as stable_point
