"""What every experiment provides: random instances of a problem in a world, and their generation rules."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from performative.environments import LocationFamily
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.kkt import Solution


class Instance(NamedTuple):
    """One random instance.

    `problem` is what the methods know and `truth` what they are measured on; they differ where a constraint has to be
    estimated. `shift` and `prior` describe the structure of the effect (None for a dense one), `start` is θ_1.
    """

    problem: Problem
    truth: Problem
    environment: LocationFamily
    optimum: Solution
    start: Floats
    shift: Any = None
    prior: Any = None


def random_source(seed: int, realization: int) -> np.random.Generator:
    """The randomness of an instance: a function of the seed and the realisation."""
    return np.random.default_rng([seed, realization])


def random_covariance(random: np.random.Generator, dimension: int, nuclear_norm: float) -> Floats:
    """Q diag(e) Qᵀ: Q the orthogonal factor of a Gaussian matrix, e uniform on [0.5, 1.5] scaled to sum `nuclear_norm`."""
    q, r = np.linalg.qr(random.normal(size=(dimension, dimension)))
    q = q * np.sign(np.diag(r))
    eigenvalues = random.uniform(0.5, 1.5, size=dimension)
    covariance = (q * (eigenvalues * nuclear_norm / eigenvalues.sum())) @ q.T
    return np.asarray((covariance + covariance.T) / 2)
