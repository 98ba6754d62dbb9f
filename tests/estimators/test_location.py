"""The gradient of a location family, against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

D, K, N = 2, 3, 7


MATRIX = np.array([[1.0, 0.3], [0.3, 2.0]])


def loss(theta, z):
    """Quadratic in both, with a product: no term vanishes by accident."""
    return 0.5 * jnp.sum((z[:2] - theta) ** 2) + z[2] * theta[0] + 0.3 * jnp.sum(theta**2)


@pytest.fixture(scope="module")
def problem():
    return pf.Problem(
        loss,
        pf.Ball(0.6),
        [pf.constraints.Linear(np.ones(2), 0.3), pf.constraints.Quadratic(MATRIX, 0.2)],
    )


def warmed(method, base, effect):
    """The method's belief after a warm-up with `base`, with the effect put in its place."""
    state = method.init(new_key(0))
    state = method.tell(state, method.ask(state, new_key(1)), base[None])
    from performative.numerics.pytrees import changed

    return changed(state.belief, effect=jnp.asarray(effect))


def logistic_loss(theta, z):
    return jnp.logaddexp(0.0, -z[0] * jnp.sum(theta * z[1:])) + 0.1 * jnp.sum(theta**2)


@pytest.mark.parametrize("loss_function", [loss, logistic_loss])
def test_gradients_against_finite_differences_of_the_empirical_risk(loss_function):
    random = np.random.default_rng(2)
    effect, base = random.normal(size=(K, D)), random.normal(size=(40, K))
    problem = pf.Problem(loss_function, pf.Ball(5.0), dimension=D)
    theta = np.array([0.4, -0.2])

    def empirical_risk(at, where):
        with precise():
            z = jnp.asarray(base + effect @ where)
            return float(jnp.mean(jax.vmap(lambda z: loss_function(jnp.asarray(at), z))(z)))

    def difference(function):
        steps = 1e-5 * np.eye(D)
        return np.array([(function(theta + h) - function(theta - h)) / 2e-5 for h in steps])

    for method, expected in [
        (pf.apda(problem, warmup=40), difference(lambda t: empirical_risk(t, t))),
        (pf.pd_ps(problem, warmup=40), difference(lambda t: empirical_risk(t, theta))),
        (pf.apda(problem, warmup=40, recycle=True), difference(lambda t: empirical_risk(t, t))),
    ]:
        belief = warmed(method, base, effect)
        with precise():
            gradient = method.estimator.gradient(method.problem, belief, jnp.asarray(theta))
        np.testing.assert_allclose(gradient, expected, atol=2e-9)  # central differences at 1e-5 are good to 1e-10
