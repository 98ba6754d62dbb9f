"""Convexity by the rules of composition: proved where they apply, never claimed of what is not convex."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from performative.numerics.curvature import is_convex

DRIFT = 0.3 * np.eye(2)
CONVEX = {
    "pinball": lambda t, z: jnp.sum(jnp.maximum(0.8 * (z + DRIFT @ t - t), -0.2 * (z + DRIFT @ t - t))),
    "hinge": lambda t, z: jnp.maximum(0.0, 1 - z[0] * jnp.sum(t * z)),
    "hinge of a convex score": lambda t, z: jnp.maximum(0.0, 1 - jnp.sum(t * (z - DRIFT @ t))),
    "logistic": lambda t, z: jax.nn.softplus(t @ z) - z[0] * (t @ z) + 0.05 * jnp.sum(t * t),
    "logaddexp": lambda t, z: jnp.logaddexp(0.0, -z[0] * (t @ z)),
    "revenue with a cost": lambda t, z: -t @ (z + DRIFT @ t) + t @ t,
    "norm": lambda t, z: jnp.linalg.norm(t) + jnp.sqrt(jnp.sum((t - z) ** 2)),
    "sum of absolute values": lambda t, z: jnp.sum(jnp.abs(t)) - 1,
    "quartic": lambda t, z: jnp.sum((t - z - DRIFT @ t) ** 4),
    "square root downwards": lambda t, z: -jnp.sqrt(t[0] + 1),
    "exponential and largest": lambda t, z: jnp.exp(t[0] * z[0]) + jnp.max(t),
    "times a whole number of the data": lambda t, z: z[0].astype(int) * t[0] + (z[1] > 0) * t[1],
    "nothing beside a norm": lambda t, z: jnp.linalg.norm(jnp.concatenate([t[2:], t - z])) + jnp.sum(t[2:] ** 2),
    "squared ramp": lambda t, z: jnp.sum(jax.nn.relu(t - z) ** 2) + jnp.sum(jnp.maximum(jnp.abs(t - z) - 0.1, 0)),
}
NOT_CONVEX = {
    "hinge of a concave score": lambda t, z: jnp.maximum(0.0, 1 - jnp.sum(t * (z + DRIFT @ t))),
    "revenue that grows": lambda t, z: -jnp.sum(t * (z + DRIFT @ t)),
    "saddle": lambda t, z: t[0] * t[1] + 0.1 * t @ t,
    "minus norm": lambda t, z: -jnp.linalg.norm(t),
    "smaller of two": lambda t, z: jnp.minimum(t[0], t[1]),
    "cubic": lambda t, z: jnp.sum(t**3),
    "times a number of unknown sign": lambda t, z: z[0] * jnp.exp(t[0]),
    "tanh": lambda t, z: jnp.tanh(t[0]),
    "narrow bump": lambda t, z: (t[0] - z[0]) ** 2 - jnp.exp(-(((t[0] - 0.3) / 0.01) ** 2)),
    "whole part": lambda t, z: (t[0] - z[0]) ** 2 - 5 * t[0].astype(int),
    "truth of a number": lambda t, z: t[0] ** 2 - 5.0 * t[0].astype(bool),
    "floor": lambda t, z: t[0] ** 2 - 5.0 * jnp.floor(t[0]),
    "nearest whole number": lambda t, z: t[0] ** 2 - 5.0 * jnp.round(t[0]),
    "sign": lambda t, z: t[0] ** 2 - 5.0 * jnp.sign(t[0]),
    "times a whole number that may be 0": lambda t, z: ((jax.nn.sigmoid(z[0]) + 0.5).astype(int) - 0.5) * jnp.abs(t[0]),
    "times a softplus above its maximum": lambda t, z: (0.5 - jax.nn.softplus(-jnp.abs(z[0]))) * jnp.abs(t[0]),
    "saddle in two units": lambda t, z: jnp.abs(z[0]) * (1e9 * t[0] ** 2 - 1e-4 * t[1] ** 2),
    "square of a convex function of any sign": lambda t, z: (jnp.sum(t * t) - 1.0) ** 2,
}


@pytest.mark.parametrize("name", CONVEX)
def test_convex_functions_are_proved_convex(name):
    assert is_convex(CONVEX[name], np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("name", NOT_CONVEX)
def test_nothing_else_is(name):
    assert not is_convex(NOT_CONVEX[name], np.zeros(2), np.zeros(2))
