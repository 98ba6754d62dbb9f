"""Points without derivatives, and averages that are not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def mean_estimation(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


SQUARE = pf.Box([0.0, 0.0], [5.0, 5.0])
DRIFT = 0.3 * np.eye(2)
WORLD = pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), DRIFT)


@pytest.mark.slow
def test_a_start_without_derivatives_is_left():
    """A norm has no gradient at 0, where the search begins."""
    problem = pf.Problem(mean_estimation, SQUARE, lambda t: jnp.linalg.norm(t) - 1)
    optimum = pf.performative_optimum(problem, WORLD)
    np.testing.assert_allclose(optimum.decision, np.array([1.0, 2.0]) / np.sqrt(5), atol=1e-7)
    assert not optimum.local
    optimum = pf.performative_optimum(pf.Problem(lambda t, z: jnp.linalg.norm(t) - t @ z, SQUARE), WORLD)
    np.testing.assert_allclose(optimum.decision, [5.0, 5.0], atol=1e-9)  # −(m + 0.3 θ)ᵀθ is concave and wins
    steep = pf.Problem(lambda t, z: 5 * jnp.linalg.norm(t) - t @ z, SQUARE)
    optimum = pf.performative_optimum(steep, pf.LocationFamily(WORLD.base, -DRIFT))
    np.testing.assert_allclose(optimum.decision, [0.0, 0.0], atol=1e-6)  # the kink itself
    optimum = pf.performative_optimum(pf.Problem(lambda t, z: jnp.sum(jnp.sqrt(t) * z), SQUARE), WORLD)
    np.testing.assert_allclose(optimum.decision, [0.0, 0.0], atol=1e-9)
    assert optimum.local


@jax.custom_jvp
def rough(x):
    return x


rough.defjvp(lambda primals, tangents: (primals[0], jnp.nan * tangents[0]))


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_what_is_not_finite_is_named_before_anything_is_solved(find):
    with pytest.raises(
        ValueError, match=r"the average loss must be finite on the decision set, but is nan at \[0. 0.\]"
    ):
        find(pf.Problem(lambda t, z: jnp.nan * jnp.sum(t * z), SQUARE), WORLD)
    with pytest.raises(ValueError, match=r"the gradient of the loss must be finite, .* at \[0. 0.\]"):
        find(pf.Problem(lambda t, z: jnp.sum((rough(t) - z) ** 2), SQUARE), WORLD)
    with pytest.raises(ValueError, match=r"the gradient of constraint bad must be finite, .* at \[0. 0.\]"):
        find(
            pf.Problem(mean_estimation, SQUARE, [pf.constraints.Function(lambda t: jnp.sum(rough(t)) - 1, "bad")]),
            WORLD,
        )


def test_a_simulation_names_what_is_not_finite():
    problem = pf.Problem(lambda t, z: jnp.nan * jnp.sum(t * z), SQUARE)
    with pytest.raises(ValueError, match="the average loss must be finite"):
        pf.simulate({"a": pf.pd_ps(problem, step=0.1)}, WORLD, rounds=3, realizations=1, seed=0)
