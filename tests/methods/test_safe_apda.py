"""Safe APDA: every deployment counted, no unit of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import EFFECT, play, small, small_loss
from scanning import scan

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def loss_in_units(a, b, c, theta, z):
    return c * small_loss(theta / a, z / b)


@pytest.mark.parametrize(
    ("theta_unit", "z_unit", "loss_unit"), [(1e-3, 1e2, 1e3), (1e3, 1.0, 1.0), (1.0, 1e3, 1.0), (1.0, 1.0, 1e3)]
)
def test_units_do_not_matter(theta_unit, z_unit, loss_unit):
    """θ' = aθ, z' = bz, ℓ' = cℓ: the same decisions in the new units, on the same random numbers."""

    def run(a, b, c):
        problem = pf.Problem(
            jax.tree_util.Partial(loss_in_units, a, b, c),  # numbers, so that all units are one compiled program
            pf.Box([-2.0 * a, -2.0 * a], [2.0 * a, 2.0 * a]),
            [pf.constraints.Linear(np.array([1.0, 1.0]) / a, 1.0), pf.constraints.Quadratic(np.eye(2) / a**2, 1.5)],
        )
        environment = pf.LocationFamily(
            pf.Gaussian(b * np.array([0.5, 0.2]), b**2 * np.array([0.3, 0.2])), EFFECT * b / a
        )
        method = pf.safe_apda(problem, anchor=[-0.1 * a, 0.2 * a])
        return scan(method, environment, 60)

    runs, plain = run(theta_unit, z_unit, loss_unit), run(1.0, 1.0, 1.0)
    np.testing.assert_allclose(runs.every / theta_unit, plain.every, rtol=1e-6, atol=1e-9)
    assert float(runs.state.scales.curvature) > 0


def test_simulation_agrees_with_asking_and_telling_by_hand():
    problem, environment = small()
    method = pf.safe_apda(problem)
    runs = pf.simulate({"safe": method}, environment, rounds=12, realizations=1, seed=3)
    with precise():
        root = jax.random.fold_in(new_key(3), 0)
        state = method.init(jax.random.fold_in(root, 0))
        for t in range(13):
            keys = jax.random.fold_in(root, t + 1)
            decisions = method.ask(state, jax.random.fold_in(keys, 0))
            samples = environment.sample(jax.random.fold_in(keys, 1), decisions[0], 1)
            before = state
            state = method.tell(state, decisions, samples[None])
    np.testing.assert_allclose(
        runs["decision"].isel({"algorithm": 0, "realization": 0, "t": -1}), before.decision, atol=1e-9
    )


@pytest.mark.slow
def test_regret_of_every_deployment_falls_like_the_square_root_and_beats_apda():
    """20 realizations, fixed seed; the exponent of the mean over a decade is −0.4 or less, as promised at large scale."""
    problem, environment = small()
    runs = pf.simulate({"safe": pf.safe_apda(problem)}, environment, rounds=20_000, realizations=20)
    apda = pf.simulate(
        {"apda": pf.apda(problem, **pf.steps.experiment(), warmup=500)}, environment, rounds=9_750, realizations=20
    )
    curve = runs["deployed_regret"].isel({"algorithm": 0}).mean("realization")
    early = float(curve.sel(t=runs["t"].values[np.argmin(np.abs(runs["t"].values - 2_000))]))
    late = float(curve.isel(t=-1))
    assert np.log10(late / early) <= -0.4
    assert late < float(apda["deployed_regret"].isel({"algorithm": 0, "t": -1}).mean()) / 50
    assert float(runs["deployed_violation"].max()) == 0.0


def test_a_loss_with_kinks_is_refused():
    loss = lambda theta, z: jnp.sum(jnp.maximum(0.7 * (z - theta), -0.3 * (z - theta)))  # noqa: E731
    problem = pf.Problem(loss, pf.Box([-5.0], [5.0]))
    environment = pf.LocationFamily(pf.Gaussian([1.0], [0.25]), [[0.4]])
    with pytest.raises(ValueError, match="`loss` must be smooth for safe_apda"):
        play(pf.safe_apda(problem), environment, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pf.safe_apda(small()[0], start=[9.0, 9.0]), "`start` must lie in the decision set"),
        (lambda: pf.safe_apda(small()[0], exploration=0.0), "`exploration > 0` must hold"),
        (lambda: pf.safe_apda(small()[0], reservoir=0), "`reservoir` must be a whole number >= 1"),
        (lambda: pf.safe_apda(small()[0], shift=lambda a, t: a * t), "`effect` must be given with `shift`"),
        (lambda: pf.safe_apda(pf.Problem(small_loss, pf.Ball(1.0))), "dimension is unknown"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_data_are_refused():
    problem, environment = small()
    method = pf.safe_apda(problem)
    states, decisions, samples = play(method, environment, 3)
    with pytest.raises(ValueError, match=r"`decisions` must have shape \(1, 2\)"):
        method.tell(states[-1], decisions[:2], samples[:2])
    with pytest.raises(ValueError, match=r"`samples` must have shape \(1, n, k\)"):
        method.tell(states[-1], decisions[:1], samples[0])
    with pytest.raises(ValueError, match="`samples` must"):
        method.tell(states[-1], decisions[:1], np.full((1, 1, 2), np.nan))
    wide = pf.safe_apda(problem, effect=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="`samples` must hold 3 numbers each"):
        wide.tell(wide.init(new_key(0)), decisions[:1], samples[:1])
