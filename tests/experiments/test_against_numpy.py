"""Both experiments of the paper against an independent implementation in NumPy.

On the same instances the two must agree up to the standard error of their paired difference if the noise is not shared,
and to rounding if it is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy_experiments import WARMUP, Portfolio, Regression, algorithm

from performative.experiments.reproduce import reproduce
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key, standard_normal
from performative.problems import portfolio, regression
from performative.simulation.engine import round_keys

ROUNDS, REALIZATIONS = 500, 12
SENSITIVITIES = (1.0, 10.0)
METHODS = ("apda", "pd-ps", "oracle")
COMPARED = ("relative_regret", "deviation", "estimation_error", "deployed_regret")


class OwnNoise:
    """Standard normal numbers for n samples of the warm-up, and for u_t, Z_t and Z'_t of each round."""

    def __init__(self, width, realizations):
        self.random, self.shape = np.random.default_rng(20), (realizations, width)

    def warmup(self, n):
        return self.random.normal(size=(n, *self.shape))

    def round(self, t):
        return self.random.normal(size=(3, *self.shape))


class LibraryNoise:
    """The very numbers that the library draws for seed 0, realization and round; all sensitivities share them."""

    def __init__(self, width, realizations):
        @jax.jit
        def draw(key):
            opening = standard_normal(round_keys(key, 0, 1)[1], WARMUP * width)
            keys = jax.vmap(lambda t: round_keys(key, t, 2))(jnp.arange(1, ROUNDS + 1))
            return opening.reshape(WARMUP, width), jax.vmap(jax.vmap(lambda key: standard_normal(key, width)))(keys)

        with precise():
            draws = [draw(jax.random.fold_in(new_key(0), r)) for r in range(realizations)]
        self.opening = np.stack([np.asarray(opening) for opening, _ in draws] * len(SENSITIVITIES), axis=1)
        self.rounds = np.stack([np.asarray(rounds) for _, rounds in draws] * len(SENSITIVITIES), axis=2)

    def warmup(self, n):
        return self.opening

    def round(self, t):
        return self.rounds[t - 1]


@pytest.fixture(scope="module", params=["regression", pytest.param("portfolio", marks=pytest.mark.slow)])
def experiment(request):
    """What the library computes, and the same instances in the form of this file, one sensitivity after the other."""
    dataset = reproduce(request.param, rounds=ROUNDS, realizations=REALIZATIONS, methods=METHODS)
    module, world = {"regression": (regression, Regression), "portfolio": (portfolio, Portfolio)}[request.param]
    instances = [module.instance(0, r, eps, WARMUP) for eps in SENSITIVITIES for r in range(REALIZATIONS)]
    return dataset.isel(t=-1), world(instances)


def differences(experiment, method, noise):
    """Metric, sensitivity, what the library computed and what was expected, realizations first."""
    final, world = experiment
    for metric, expected in algorithm(world, method, noise, ROUNDS).items():
        for sensitivity, values in zip(SENSITIVITIES, np.split(expected, len(SENSITIVITIES)), strict=True):
            yield (
                metric,
                sensitivity,
                final[metric].sel({"sensitivity": sensitivity, "algorithm": method}).values,
                values,
            )


@pytest.mark.slow
def test_library_agrees_with_an_independent_implementation(experiment):
    noise = OwnNoise(experiment[1].width, len(SENSITIVITIES) * REALIZATIONS)
    wrong, compared = [], 0
    for method in METHODS:
        for metric, sensitivity, computed, expected in differences(experiment, method, noise):
            if metric in COMPARED:
                difference = computed - expected
                allowed = 4 * difference.std(ddof=1) / np.sqrt(REALIZATIONS) + 1e-12
                compared += 1
                if not abs(difference.mean()) <= allowed:
                    wrong.append((sensitivity, method, metric, float(difference.mean()), float(allowed)))
    assert compared == len(METHODS) * len(COMPARED) * len(SENSITIVITIES)
    assert not wrong


def test_library_agrees_to_rounding_on_the_same_noise(experiment):
    noise = LibraryNoise(experiment[1].width, REALIZATIONS)
    wrong = []
    for method in METHODS:
        for metric, sensitivity, computed, expected in differences(experiment, method, noise):
            off = np.max(np.abs(computed - expected))
            if not off <= 1e-10 * max(1.0, np.max(np.abs(expected))):
                wrong.append((sensitivity, method, metric, float(off)))
    assert not wrong
