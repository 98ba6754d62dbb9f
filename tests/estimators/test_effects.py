"""The effect is learned from pairs at the rate of Lemma E1."""

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.numerics.precision import precise


def errors_of_estimate(sign, dimension, width, rounds, lanes, step):
    """‖Â_t − A‖² averaged over lanes, by the library's own update with the given sign."""
    from performative.estimators import PairedLeastSquares
    from performative.numerics.pytrees import callable_node
    from performative.shifts import apply_effect

    learner = PairedLeastSquares(callable_node(apply_effect), callable_node(step), None, 1.0)
    random = np.random.default_rng(3)
    effect = random.normal(size=(width, dimension))

    def update(estimate, inputs, t):
        u, z, z_probe = inputs
        decisions = jnp.stack([jnp.zeros(dimension), u])
        new = learner.update(estimate, decisions, jnp.stack([z, z_probe + effect @ u])[:, None], t)
        return estimate + sign * (new - estimate)

    with precise():
        one_round = jax.jit(jax.vmap(update, in_axes=(0, 0, None)))
        estimate = jnp.zeros((lanes, width, dimension))
        errors = [float(np.sum(effect**2))]
        for t in range(1, rounds + 1):
            inputs = tuple(random.normal(size=(lanes, size)) for size in (dimension, width, width))
            estimate = one_round(estimate, inputs, t)
            errors.append(float(jnp.mean(jnp.sum((estimate - effect) ** 2, axis=(1, 2)))))
    return np.array(errors)


def test_estimation_error_follows_the_recursion_of_lemma_e1_and_falls_like_one_over_t():
    dimension, width, lanes = 3, 2, 2000
    kappa1, kappa2, kappa3 = 1.0, dimension, dimension + 2
    step = pf.steps.excited(dimension)
    errors = errors_of_estimate(+1, dimension, width, 400, lanes, step)
    # For Gaussian probes E[‖u‖²uuᵀ] = (d+2)I, so the lemma holds with equality; tr Σ = width.
    expected = [errors[0]]
    for t in range(1, 401):
        zeta = 2.0 / (kappa1 * t + 2 * kappa3)
        expected.append((1 - kappa1 * zeta * (2 - zeta * kappa3)) * expected[-1] + 2 * zeta**2 * kappa2 * width)
    # 2000 lanes, each with a relative spread of order 1: five standard errors are about 0.11.
    np.testing.assert_allclose(errors[1:], expected[1:], rtol=0.11)
    slope = np.polyfit(np.log(np.arange(100, 401)), np.log(errors[100:]), 1)[0]
    assert -1.15 < slope < -0.85


def test_the_printed_sign_diverges():
    """Algorithm 1, line 7 prints Â − ζ(…)uᵀ; the error then grows without bound instead of falling."""
    errors = errors_of_estimate(-1, 3, 2, 100, 50, pf.steps.excited(3))
    assert errors[-1] > 100 * errors[0]
    assert errors_of_estimate(+1, 3, 2, 100, 50, pf.steps.excited(3))[-1] < errors[0]
