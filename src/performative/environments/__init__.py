"""The world: how data answer a decision."""

from performative.environments.bases import Base, Empirical, Gaussian
from performative.environments.closed_form import ClosedForm
from performative.environments.discrete import Bernoulli, Poisson
from performative.environments.drifting import Drifting
from performative.environments.families import Family, Normal, ParametricFamily
from performative.environments.games import LocationGame
from performative.environments.host import HostWorld
from performative.environments.location import LocationFamily
from performative.environments.mixture import Mixture
from performative.environments.protocol import Environment
from performative.environments.reaction import Reaction
from performative.environments.strategic import BestResponse, strategic_response

__all__ = [
    "Base",
    "Bernoulli",
    "BestResponse",
    "ClosedForm",
    "Drifting",
    "Empirical",
    "Environment",
    "Family",
    "Gaussian",
    "HostWorld",
    "LocationFamily",
    "LocationGame",
    "Mixture",
    "Normal",
    "ParametricFamily",
    "Poisson",
    "Reaction",
    "strategic_response",
]
