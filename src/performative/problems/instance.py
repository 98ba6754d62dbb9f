"""Random instances of the paper's two problems: what each consists of, and the generation rules they share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from performative.environments import Gaussian, LocationFamily
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.shifts import Shift
from performative.solvers.kkt import Solution

WARMUP = 1000
"""n, the base samples of the warm-up in both experiments."""


class Instance(NamedTuple):
    """One random instance of a problem in a world.

    `problem` is what the methods know and `truth` what they are measured on; they differ where a constraint must be
    estimated. `shift` and `prior` describe the structure of the effect (None for a dense one), `start` is θ_1.
    """

    problem: Problem
    truth: Problem
    environment: LocationFamily
    optimum: Solution
    start: Floats
    shift: Shift | None = None
    prior: Floats | None = None


def gaussian_base(instance: Instance) -> Gaussian:
    """The base distribution of an instance, which is Gaussian in both experiments."""
    base = instance.environment.base
    assert isinstance(base, Gaussian)
    return base


def random_source(seed: int, realization: int) -> np.random.Generator:
    """The randomness of an instance: a function of the seed and the realization."""
    return np.random.default_rng([seed, realization])


def random_covariance(random: np.random.Generator, dimension: int, nuclear_norm: float) -> Floats:
    """Q diag(e) Qᵀ: Q the orthogonal factor of a Gaussian matrix, e uniform on [0.5, 1.5] scaled to sum `nuclear_norm`."""
    q, r = np.linalg.qr(random.normal(size=(dimension, dimension)))
    q = q * np.sign(np.diag(r))
    eigenvalues = random.uniform(0.5, 1.5, size=dimension)
    covariance = (q * (eigenvalues * nuclear_norm / eigenvalues.sum())) @ q.T
    return np.asarray((covariance + covariance.T) / 2)
