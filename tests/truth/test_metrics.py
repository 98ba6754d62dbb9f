"""Instances whose optima are described in other words run as one batch."""

import jax.numpy as jnp
import numpy as np

import performative as pf


def test_instances_that_are_convex_or_not_run_together():
    problem = pf.Problem(lambda t, z: jnp.sum(t**2) - jnp.sum(t * z), pf.Box([-1.0], [1.0]))
    worlds = [pf.LocationFamily(pf.Gaussian([0.3], [1.0]), [[strength]]) for strength in (0.5, 1.5, 1.6)]
    messages = {pf.performative_optimum(problem, world).message for world in worlds}
    assert len(messages) == 3
    data = pf.simulate({"a": pf.repeated_gradient(problem)}, worlds, rounds=3)
    assert np.all(np.isfinite(data.regret))
