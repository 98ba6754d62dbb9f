"""Strategic responses: the best there is, with the derivatives of the root that they solve for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_world import PEOPLE
from scipy import optimize, special

import performative as pf
from performative.environments.strategic import _improved
from performative.numerics.precision import precise


def test_a_best_response_is_the_best():
    """Against scipy's maximizer of the utility less the cost."""
    theta, x, ease = np.array([1.5, -2.0, 0.3]), np.array([0.2, 0.7]), np.array([0.8, 0.3])
    base = pf.Empirical(np.array([[*x, 1.0]]))
    for utility, value in (("linear", lambda s: s), ("logistic", lambda s: -np.log1p(np.exp(-s)))):
        world = pf.strategic_response(base, ease=ease, utility=utility, wanted=-1)
        with precise():
            moved = np.asarray(jax.jit(world.react)(jnp.asarray(theta), jnp.array([*x, 1.0])))

        def payoff(new, value=value):
            return value(-(theta[:2] @ new + theta[2])) - np.sum((new - x) ** 2 / (2 * ease))

        best = optimize.minimize(
            lambda new: -payoff(new), x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
        )
        np.testing.assert_allclose(moved[:2], best.x, atol=1e-5)
        assert moved[2] == 1.0


def test_derivatives_of_the_logistic_response_are_those_of_the_root():
    reaches, scores = (grid.ravel() for grid in np.meshgrid([1e-3, 1.0, 50.0, 1e4], [-30.0, -1.0, 0.0, 4.0]))
    with precise():
        orders = [_improved, jax.grad(_improved), jax.grad(jax.grad(_improved))]
        roots, slopes, bends = (
            np.asarray(part) for part in jax.jit(jax.vmap(lambda *at: [f(*at) for f in orders]))(scores, reaches)
        )
    for reach, score, ours, first, second in zip(reaches, scores, roots, slopes, bends, strict=True):
        root = optimize.brentq(
            lambda s, score=score, reach=reach: s - score - reach * special.expit(-s), score, score + reach, xtol=1e-14
        )
        calm = special.expit(-root)
        slope = 1 / (1 + reach * calm * (1 - calm))
        # s' = s + r σ(−s')  ⇒  s'' = −r σ'(1 − 2σ)·slope³ with σ at −s'
        bend = reach * calm * (1 - calm) * (1 - 2 * calm) * slope**3
        assert ours == pytest.approx(root, rel=1e-9, abs=1e-9)
        assert first == pytest.approx(slope, rel=1e-7)
        assert second == pytest.approx(bend, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pf.strategic_response(pf.Gaussian(0.0, 1.0), ease=1.0), "must hold features and a label"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=-1.0), "`ease` must be >= 0"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=[1.0]), "one for each of 2 features"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=1.0, utility="x"), "`utility` must be"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=1.0, wanted=0), "`wanted` must be -1 or 1"),
    ],
)
def test_responses_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
