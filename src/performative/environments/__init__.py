"""The world: how data answer a decision."""

from performative.environments.bases import Base, Empirical, Gaussian
from performative.environments.closed_form import ClosedForm
from performative.environments.discrete import Bernoulli, Poisson
from performative.environments.families import Family, Mixture, Normal, ParametricFamily
from performative.environments.games import LocationGame
from performative.environments.location import Environment, LocationFamily, apply_effect
from performative.environments.reaction import QuadratureWarning, Reaction
from performative.environments.strategic import BestResponse, strategic_response

__all__ = [
    "Base",
    "Bernoulli",
    "BestResponse",
    "ClosedForm",
    "Empirical",
    "Environment",
    "Family",
    "Gaussian",
    "LocationFamily",
    "LocationGame",
    "Mixture",
    "Normal",
    "ParametricFamily",
    "Poisson",
    "QuadratureWarning",
    "Reaction",
    "apply_effect",
    "strategic_response",
]
