"""What is learnt of the world, and from it an approximate gradient of the performative risk."""

from performative.estimators.base_samples import BaseSamples
from performative.estimators.effects import KnownEffect, PairedLeastSquares
from performative.estimators.location import GradientEstimator, LocationBelief, LocationEstimator
from performative.estimators.sampled import FrozenData, FrozenPopulation, OnePointEstimate, TwoPointEstimate
from performative.estimators.scores import PerformativeGradient, ScoreEstimate

__all__ = [
    "BaseSamples",
    "FrozenData",
    "FrozenPopulation",
    "GradientEstimator",
    "KnownEffect",
    "LocationBelief",
    "LocationEstimator",
    "OnePointEstimate",
    "PairedLeastSquares",
    "PerformativeGradient",
    "ScoreEstimate",
    "TwoPointEstimate",
]
