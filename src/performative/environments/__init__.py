"""The world: how data answer a decision."""

from performative.environments.bases import Base, Empirical, Gaussian
from performative.environments.location import Environment, LocationFamily, QuadratureWarning, apply_effect

__all__ = ["Base", "Empirical", "Environment", "Gaussian", "LocationFamily", "QuadratureWarning", "apply_effect"]
