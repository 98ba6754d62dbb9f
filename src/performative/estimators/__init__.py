"""What is learned about the world from decisions and samples: effects, base samples, gradients and standard errors."""

from performative.estimators.base_samples import BaseSamples
from performative.estimators.effects import KnownEffect, PairedLeastSquares
from performative.estimators.frozen import FrozenData, FrozenPopulation
from performative.estimators.location import LocationBelief, LocationEstimator
from performative.estimators.moments import JointMoments
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
    "TwoPointEstimate",
]
