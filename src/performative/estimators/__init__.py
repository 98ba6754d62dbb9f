"""What is learned about the world from decisions and samples: effects, base samples, gradients and standard errors."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from performative.estimators.base_samples import BaseSamples
    from performative.estimators.effects import KnownEffect, PairedLeastSquares
    from performative.estimators.frozen import FrozenData, FrozenPopulation
    from performative.estimators.location import LocationBelief, LocationEstimator
    from performative.estimators.moments import JointMoments, SquaredWeights
    from performative.estimators.protocol import EffectEstimator, GradientEstimator
    from performative.estimators.regression import LeastSquares, Regression
    from performative.estimators.scores import PerformativeGradient, ScoreEstimate
    from performative.estimators.zeroth_order import OnePointEstimate, TwoPointEstimate

__all__ = [
    "BaseSamples",
    "EffectEstimator",
    "FrozenData",
    "FrozenPopulation",
    "GradientEstimator",
    "JointMoments",
    "KnownEffect",
    "LeastSquares",
    "LocationBelief",
    "LocationEstimator",
    "OnePointEstimate",
    "PairedLeastSquares",
    "PerformativeGradient",
    "Regression",
    "ScoreEstimate",
    "SquaredWeights",
    "TwoPointEstimate",
]

_HOMES = {
    "BaseSamples": "base_samples",
    "EffectEstimator": "protocol",
    "FrozenData": "frozen",
    "FrozenPopulation": "frozen",
    "GradientEstimator": "protocol",
    "JointMoments": "moments",
    "KnownEffect": "effects",
    "LeastSquares": "regression",
    "LocationBelief": "location",
    "LocationEstimator": "location",
    "OnePointEstimate": "zeroth_order",
    "PairedLeastSquares": "effects",
    "PerformativeGradient": "scores",
    "Regression": "regression",
    "ScoreEstimate": "scores",
    "SquaredWeights": "moments",
    "TwoPointEstimate": "zeroth_order",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: a study that tells waits for what its method needs alone.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
