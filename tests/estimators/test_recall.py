"""What past deployments teach Safe APDA: as much as deploying them did, from rows or from their means."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import EFFECT, small, standard_errors

import performative as pf
from performative.losses import Logistic
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def days(seed=0, decisions=60, most=9):
    """Rows of deployments that took up to `most` days each, and the means and counts of the deployments."""
    random = np.random.default_rng(seed)
    chosen, counts = random.normal(size=(decisions, 2)), random.integers(1, most + 1, size=decisions)
    x = np.repeat(chosen, counts, axis=0)
    z = x @ EFFECT.T + random.normal(size=x.shape) * np.sqrt([0.3, 0.2]) + [0.5, 0.2]
    edges = np.cumsum(counts)[:-1]
    return (x, z), (chosen, np.stack([part.mean(axis=0) for part in np.split(z, edges)]), counts)


@pytest.mark.slow
def test_means_and_rows_teach_the_same_regression():
    """Up to the ridge, which follows the noise: rows within a deployment tell more of it than means do."""
    rows, means = days()
    methods = [pf.safe_apda(small()[0], history=past) for past in (rows, pf.Past.of(*means))]
    one, other = (method.init(new_key(0)).belief for method in methods)
    for name in ("count", "decision", "data"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, err_msg=name)
    with precise():
        plain, same = (
            method.learner.unbiased(belief).regression for method, belief in zip(methods, (one, other), strict=True)
        )
    np.testing.assert_allclose(plain.effect, same.effect, rtol=1e-6)
    # The same covariance of one sample, from what rows and from what means scatter.
    for belief, tolerance in ((one, 0.2), (other, 0.45)):
        np.testing.assert_allclose(belief.noise, [0.3, 0.2], rtol=tolerance)


@pytest.mark.slow
def test_a_history_in_any_order_is_least_squares_of_all_rows():
    (x, z), _ = days(seed=1)
    order = np.random.default_rng(2).permutation(len(x))
    method = pf.safe_apda(small()[0], history=(x[order], z[order]))
    state = method.init(new_key(0))
    belief = state.belief
    apart, moved = x - x.mean(axis=0), z - z.mean(axis=0)
    with precise():
        effect = np.asarray(method.learner.unbiased(belief).regression.effect)
    np.testing.assert_allclose(effect, np.linalg.lstsq(apart, moved, rcond=None)[0].T, rtol=1e-6)
    np.testing.assert_allclose(belief.effect, effect, atol=0.06)  # small entries keep more of the prior
    np.testing.assert_allclose(belief.spread, moved.T @ moved, rtol=1e-8)
    left = moved - apart @ np.asarray(belief.effect).T
    np.testing.assert_allclose(belief.covariance, left.T @ left / len(x), rtol=1e-8)


@pytest.mark.filterwarnings("ignore::performative.InfeasibleStartWarning")
@pytest.mark.parametrize("start", [None, pytest.param([0.5, -1.0], marks=pytest.mark.slow), [2.0, 2.0]])
def test_the_first_decision_is_the_start_with_a_history_too(start):
    """The start is infeasible in one case, and pulled back. The second decision already moves."""
    problem, _ = small()
    method = pf.safe_apda(problem, start=start, history=days()[0])
    state, fresh = method.init(new_key(0)), pf.safe_apda(problem, start=start)
    first = method.ask(state, new_key(1))
    np.testing.assert_array_equal(first, fresh.ask(fresh.init(new_key(0)), new_key(1)))
    if start == [0.5, -1.0]:
        np.testing.assert_array_equal(first, [start])
    state = method.tell(state, first, np.zeros((1, 1, 2)))
    assert int(state.round) == 1
    numbers = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert np.all(np.isfinite(np.concatenate([np.ravel(leaf) for leaf in numbers])))
    assert np.max(np.abs(np.asarray(method.ask(state, new_key(2))) - np.asarray(first))) > 1e-3


@pytest.mark.slow
def test_rows_fill_the_reservoir_of_a_loss_that_is_not_quadratic():
    problem = pf.Problem(Logistic(), pf.Ball(2.0), dimension=1)
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 1))
    z = np.column_stack([random.normal(size=40), random.integers(0, 2, size=40)])
    state = pf.safe_apda(problem, history=(x, z), reservoir=64).init(new_key(0))
    kept = np.asarray(state.belief.reservoir)
    assert kept.shape == (64, 3)
    np.testing.assert_array_equal(np.sort(kept[:40], axis=0), np.sort(np.column_stack([x, z]), axis=0))
    latest = pf.safe_apda(problem, history=(x, z), forgetting=0.8).init(new_key(0)).belief.reservoir
    assert {tuple(row) for row in np.asarray(latest).tolist()} <= {tuple(row) for row in np.column_stack([x, z])[-4:]}
    with pytest.raises(
        ValueError, match=r"must hold single samples for a loss that is not quadratic .* means of up to 3"
    ):
        pf.safe_apda(problem, history=pf.Past.of(x, z, np.resize([1, 3], 40)))


@pytest.mark.slow
def test_data_that_the_effect_cannot_move_explain_noise_within_deployments():
    """Two decisions of 200 days each: x explains most of y, and shows it within deployments alone."""
    random = np.random.default_rng(0)
    theta = np.repeat([[0.0], [1.0]], 200, axis=0)
    seen = random.normal(size=(400, 1))
    z = np.concatenate([seen, seen + 0.1 * random.normal(size=(400, 1)) + 0.5 * theta], axis=1)
    problem = pf.Problem(lambda t, z: 0.5 * (z[1] - t[0]) ** 2 + 0.0 * z[0], pf.Ball(5.0), dimension=1)
    shift = lambda a, t: jnp.concatenate([jnp.zeros(1), a * t])  # noqa: E731
    method = pf.safe_apda(problem, shift=shift, effect=np.zeros(1), history=(theta, z))
    state = method.init(new_key(0))
    with precise():
        estimate = standard_errors(method, state)
    naive = np.sqrt(1.01 / 100)  # of the difference of two means over 200 days
    assert abs(float(estimate.effect[0]) - 0.5) < 0.3 * naive
    assert float(estimate.effect_error[0]) < 0.3 * naive


@pytest.mark.parametrize(
    ("history", "error", "message"),
    [
        (
            (np.zeros((3, 1)), np.zeros((3, 2))),
            ValueError,
            "must hold decisions of 2 numbers, like the problem's, but got 1",
        ),
        ((np.zeros((0, 2)), np.zeros((0, 2))), ValueError, "must have the same number of rows, at least one"),
        (
            (np.zeros((3, 2)), np.zeros((3, 3))),
            ValueError,
            "must hold samples that the loss accepts, but got 3 numbers each",
        ),
        (
            np.zeros((3, 2)),
            TypeError,
            "must be a pair of arrays, decisions (N, d) and samples (N, k), or a performative.Past",
        ),
    ],
)
def test_a_history_that_does_not_fit_is_refused(history, error, message):
    with pytest.raises(error, match=re.escape(message)):
        pf.safe_apda(small()[0], history=history)


def test_a_history_must_have_the_width_of_the_effect():
    problem = pf.Problem(lambda theta, z: jnp.sum(z) * jnp.sum(theta), pf.Ball(1.0), dimension=2)
    with pytest.raises(ValueError, match="must hold samples of 3 numbers, like the effect's rows, but got 1"):
        pf.safe_apda(problem, effect=np.zeros((3, 2)), history=(np.zeros((1, 2)), np.zeros((1, 1))))


def test_decisions_outside_of_the_set_teach_too():
    problem, _ = small()
    state = pf.safe_apda(problem, history=([[50.0, 0.0], [0.0, 50.0], [0.0, 0.0]], np.ones((3, 2)))).init(new_key(0))
    assert np.all(np.isfinite(state.belief.effect))
