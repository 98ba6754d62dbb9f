"""Functions whose derivative is zero wherever it is defined are told from those whose derivative only vanishes somewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from performative.numerics.pytrees import callable_node
from performative.numerics.slopes import is_flat

FLAT = {
    "where": lambda theta, z: jnp.where(theta[0] * z[0] > 0, 0.0, 1.0),
    "sign": lambda theta, z: 1.0 - jnp.sign(theta[0] * z[0]),
    "comparison": lambda theta, z: (theta[0] * z[0] < 0).astype(float),
    "compiled": jax.jit(lambda theta, z: jnp.where(theta[0] * z[0] > 0, 0.0, 1.0)),
    "floor": lambda theta, z: jnp.floor(theta[0] * z[0]),
}
SLOPED = {
    "hinge": lambda theta, z: jnp.maximum(0.0, theta[0] * z[0] - 1e9),
    "absolute": lambda theta, z: jnp.abs(theta[0] - z[0]),
    "linear": lambda theta, z: theta[0],
    "regularized": lambda theta, z: jnp.where(theta[0] > 0, 0.0, 1.0) + theta[0] ** 2,
    "constant": lambda theta, z: jnp.zeros(()),
    "of the data alone": lambda theta, z: z[0],
}


@pytest.mark.parametrize(("functions", "flat"), [(FLAT, True), (SLOPED, False)])
def test_flat_functions_are_recognized(functions, flat):
    for name, function in functions.items():
        assert is_flat(callable_node(function), np.zeros(1), np.zeros(1)) is flat, name


def test_a_loss_that_moves_with_the_data_is_not_flat_in_both():
    function = callable_node(lambda theta, z: jnp.sign(theta[0]) * z[0])
    assert is_flat(function, np.zeros(1), np.zeros(1), within=(0,))
    assert not is_flat(function, np.zeros(1), np.zeros(1), within=(0, 1))
