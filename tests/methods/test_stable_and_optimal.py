"""Methods end at the stable point or at the optimum, as each promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf
from performative import estimators
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

EFFECT = np.array([[0.3, 0.1], [0.0, 0.2]])


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def setting(bound=5.0, strength=1.0):
    """Mean estimation: PR = ½‖θ − m − Aθ‖² + const; the stable point solves (I − A)θ = m."""
    problem = pf.Problem(loss, pf.Ball(10.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian(np.array([1.0, 0.5]), 0.04 * np.ones(2)), strength * EFFECT)
    return problem, environment


def slanted(theta, z):
    """½‖θ − z‖² + 0.3⟨θ, z⟩, so that the stable point is not the optimum."""
    return 0.5 * jnp.sum((theta - z) ** 2) + 0.3 * jnp.sum(theta * z)


def slanted_setting(bound=0.6):
    """With z = m + Aθ: frozen, the gradient is θ − 0.7z; in full ∇PR = (I − 0.7A)θ − 0.7m + Aᵀ(z − 0.7θ)."""
    problem = pf.Problem(slanted, pf.Ball(3.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = setting()[1]
    return problem, environment


def closed_forms(bound=0.6):
    """Optimum and stable point where the constraint binds: a linear system in (θ, λ)."""
    a, m, one = EFFECT, np.array([1.0, 0.5]), np.ones(2)
    frozen = np.eye(2) - 0.7 * a
    full = frozen + a.T @ a - 0.7 * a.T
    solutions = []
    for matrix, side in ((full, 0.7 * m - a.T @ m), (frozen, 0.7 * m)):
        system = np.block([[matrix, one[:, None]], [one[None, :], np.zeros((1, 1))]])
        solutions.append(np.linalg.solve(system, [*side, bound])[:2])
    return solutions


def test_the_closed_forms_of_these_tests_agree_with_the_solvers():
    problem, environment = slanted_setting()
    optimum, stable = closed_forms()
    np.testing.assert_allclose(pf.performative_optimum(problem, environment).decision, optimum, atol=1e-7)
    np.testing.assert_allclose(pf.stable_point(problem, environment).decision, stable, atol=1e-7)
    assert np.linalg.norm(optimum - stable) > 0.05


@pytest.mark.parametrize(
    ("make", "rounds", "tolerance"),
    [
        (lambda p, _: pf.repeated_gradient(p, step=0.01, control=0.01, samples=20), 1_500, 0.02),
        (lambda p, world: pf.repeated_gradient(p, step=0.05, control=0.01, environment=world), 1_500, 1e-3),
        (lambda p, _: pf.repeated_minimization(p, samples=500), 40, 0.02),  # θ contracts by 0.3 a round
        (lambda p, world: pf.repeated_minimization(p, environment=world), 40, 1e-6),
    ],
    ids=["rgd", "rgd, exact", "rrm", "rrm, exact"],
)
@pytest.mark.slow
def test_stable_point_methods_end_at_the_stable_point_and_not_at_the_optimum(make, rounds, tolerance):
    problem, environment = slanted_setting()
    optimum, stable = closed_forms()
    method = make(problem, environment)
    runs = scan(method, environment, rounds, runs=4)
    np.testing.assert_allclose(runs.final, stable, atol=tolerance)
    assert np.linalg.norm(runs.final - optimum) > 0.03
    if rounds == 40:  # each minimization is constrained
        with precise():
            assert float(jax.vmap(problem.g)(runs.decisions.reshape(-1, 2)).max()) < 1e-6


FAMILY = pf.Normal(0.04 * np.ones(2))
DENSITY = pf.ParametricFamily(FAMILY, lambda theta: jnp.array([1.0, 0.5]) + EFFECT @ theta).log_density


@pytest.mark.parametrize(
    "make",
    [
        lambda p: pf.two_stage(p, stage=2_000),
        lambda p: pf.perfgd(p, family=FAMILY, memory=200, step=4e-3, control=0.1, exploration=0.2, samples=8),
        lambda p: pf.score_gradient(p, log_density=DENSITY, step=4e-3, control=0.1, samples=8),
    ],
    ids=["two-stage", "perfgd", "score"],
)
def test_optimum_methods_end_at_the_optimum_and_not_at_the_stable_point(make):
    problem, environment = slanted_setting()
    optimum, stable = closed_forms()
    runs = scan(make(problem), environment, 4_000, runs=10)
    error = runs.decisions[:, -1].std(axis=0) / np.sqrt(10)  # five of them, and the drift of a step that does not fade
    assert np.all(np.abs(runs.final - optimum) <= 5 * error + 0.01), (runs.final, optimum)
    assert np.linalg.norm(runs.final - stable) > 0.03


def test_methods_from_samples_refuse_what_they_cannot_use():
    problem, _ = setting()
    method = pf.repeated_gradient(problem)
    state = method.init(new_key(0))
    with pytest.raises(ValueError, match="`decisions` must be the one decision"):
        method.tell(state, np.zeros((2, 2)), np.zeros((2, 1, 2)))
    with pytest.raises(ValueError, match="`exploration > 0` must hold"):
        pf.two_point(problem, exploration=-1.0)
    assert isinstance(method.estimator, estimators.FrozenData)


WIDE = pf.Problem(loss, pf.Box(np.zeros(4), np.ones(4)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: pf.confidence_bounds(WIDE, sensitivity=1.0), "the dimension must be at most 3, but got dimension=4"),
        (
            lambda p: pf.confidence_bounds(pf.Problem(loss, pf.Reals(2)), sensitivity=1.0),
            "the decision set must be bounded",
        ),
        (lambda p: pf.confidence_bounds(p, sensitivity=0.0), "`sensitivity > 0` must hold"),
        (lambda p: pf.confidence_bounds(p, sensitivity=1.0, samples=1), "`samples` must be a whole number >= 2"),
        (lambda p: pf.perfgd(p, family=pf.Mixture([pf.Normal(1.0)])), "`family` must be an exponential family"),
        (lambda p: pf.perfgd(p, family=pf.Normal([1.0, 1.0]), memory=2), "`memory` must be a whole number >= 3"),
        (lambda p: pf.score_gradient(p, log_density=None), "since the density must be known, but got None"),
        (lambda p: pf.two_stage(p, stage=2), "`stage` must be a whole number >= 3"),
        (lambda p: pf.two_stage(p, shift=lambda a, x: a * x), "`effect` must be given with `shift`"),
        (lambda p: pf.repeated_minimization(p, samples=0), "`samples` must be a whole number >= 1"),
        (lambda p: pf.repeated_minimization(p, environment=3), "must know its risk"),
        (lambda p: pf.saddle(p, ascending=[2]), "`ascending` must be at most 1"),
        (lambda p: pf.repeated_minimization(pf.Problem(loss, pf.Ball(1.0))), "dimension is unknown"),
    ],
)
def test_methods_say_what_they_cannot_serve(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(setting()[0])
