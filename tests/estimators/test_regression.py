"""Least squares of the data on the decisions, in closed form and kept up to date."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import EFFECT, play, small, standard_errors
from scanning import regret, scan

import performative as pf
from performative.estimators.known import Numbers, Rows
from performative.estimators.moments import JointMoments
from performative.estimators.prediction import Prediction
from performative.estimators.regression import Regression, faded
from performative.numerics.precision import precise
from performative.numerics.pytrees import changed
from performative.numerics.randomness import new_key
from performative.shifts import apply_effect


@pytest.fixture(scope="module")
def several():
    """A run with three samples a deployment: the method, its states, decisions and samples."""
    problem, environment = small()
    method = pf.safe_apda(problem, samples=3)
    return method, *play(method, environment, 40)


def test_the_regression_is_least_squares_over_every_deployment(several):
    """Â and its covariances against the normal equations of each row, with its noise and its prior, and what they leave."""
    method, states, decisions, samples = several
    before, decisions, z = states[-1].belief, np.repeat(decisions, 3, axis=0), samples.reshape(-1, 2)
    x, y = decisions - decisions.mean(axis=0), z - z.mean(axis=0)
    with precise():
        variances = np.asarray(states[-1].prior.variances(method.learner, before))
        fit = method.learner.fit(before, jnp.asarray(variances))
    belief = fit.regression
    np.testing.assert_allclose(belief.data, z.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(belief.decision, decisions.mean(axis=0), rtol=1e-10)
    effect = np.zeros((2, 2))
    for row, noise in enumerate(np.asarray(before.noise)):
        normal = x.T @ x / noise + np.diag(1.0 / variances[row])
        effect[row] = np.linalg.solve(normal, x.T @ y[:, row] / noise)
        np.testing.assert_allclose(fit.known.covariance[row], np.linalg.inv(normal), rtol=1e-8)
    np.testing.assert_allclose(belief.effect, effect, rtol=1e-8)
    left = y - x @ effect.T
    np.testing.assert_allclose(belief.covariance, left.T @ left / 120, rtol=1e-8)


def test_known_signs_are_the_constrained_least_squares(several):
    """Against SciPy's bounded least squares of the same normal equations; a zero stays zero, and its error is zero."""
    from scipy.optimize import lsq_linear

    method, states, _, _ = several
    before = states[-1].belief
    with precise():
        variances = states[-1].prior.variances(method.learner, before)
        free = method.learner.fit(before, variances)
        turned = -np.sign(np.asarray(free.regression.effect))  # the opposite of what the data say
        signs = np.where(np.eye(2) > 0, turned, np.nan)
        bounded = changed(method.learner, signs=signs).fit(before, variances)
        zeros = changed(method.learner, signs=np.array([[np.nan, 0.0], [np.nan, np.nan]]))
        nothing = zeros.fit(before, states[-1].prior.variances(zeros, before))
    moments = before.moments
    for row, noise in enumerate(np.asarray(before.noise)):
        normal = np.asarray(moments.scatter) / noise + np.diag(1.0 / np.asarray(variances)[row])
        root = np.linalg.cholesky(normal).T
        limits = np.where(signs[row] > 0, 0.0, -np.inf), np.where(signs[row] < 0, 0.0, np.inf)
        wanted = lsq_linear(root, np.linalg.solve(root.T, np.asarray(moments.cross)[row] / noise), limits, tol=1e-14)
        np.testing.assert_allclose(bounded.regression.effect[row], wanted.x, atol=1e-6)
    assert float(nothing.regression.effect[0, 1]) == 0.0
    assert float(nothing.known.covariance[0, 1, 1]) == 0.0


def past():
    """5,000 past deployments, each with its sample."""
    random = np.random.default_rng(0)
    decisions = random.normal(size=(5_000, 2))
    return decisions, decisions @ EFFECT.T + random.normal(size=(5_000, 2)) * np.sqrt([0.3, 0.2]) + [0.5, 0.2]


def test_a_history_teaches_the_effect_before_the_first_deployment():
    problem, (decisions, samples) = small()[0], past()
    state = pf.safe_apda(problem, history=(decisions, samples)).init(new_key(0))
    assert int(state.round) == 0
    np.testing.assert_allclose(state.belief.effect, EFFECT, atol=0.05)
    with pytest.raises(ValueError, match="`history` must hold decisions of 2 numbers, like the problem's, but got 1"):
        pf.safe_apda(problem, history=(decisions[:, :1], samples))


@pytest.mark.slow
def test_a_history_is_as_good_as_having_deployed_it():
    problem, environment = small()
    methods = pf.safe_apda(problem, history=past()), pf.safe_apda(problem)
    informed, fresh = (scan(method, environment, 300, runs=20) for method in methods)
    assert regret(problem, environment, informed) < regret(problem, environment, fresh)


def scaled_shift(factor, effect, theta):
    return factor * effect * theta


@pytest.mark.slow
def test_a_structured_effect_is_learned_whatever_its_scale():
    """shift = c·a·θ: the same trajectory for every c, and standard errors that shrink with c."""
    problem, _ = small()
    environment = pf.LocationFamily(pf.Gaussian(np.array([0.5, 0.2]), np.array([0.3, 0.2])), np.diag([0.4, -0.3]))
    results = []
    for factor in (10.0, 2.0):
        shift = jax.tree_util.Partial(scaled_shift, factor)
        method = pf.safe_apda(problem, shift=shift, effect=np.zeros(2), exploration=2.0)
        runs = scan(method, environment, 120)
        estimate = standard_errors(method, runs.state)
        results.append((runs.every, factor * estimate.effect, factor * estimate.effect_error))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    _, effect, error = results[0]
    assert np.all(np.abs(effect - [0.4, -0.3]) <= 4 * error)


@pytest.mark.slow
def test_data_that_the_effect_cannot_move_sharpen_its_estimate():
    """y moves, x does not, and x explains most of y: the effect's standard error is that of what x leaves unexplained."""
    loss = lambda theta, z: 0.5 * (z[1] - theta[0]) ** 2 + 0.0 * z[0]  # noqa: E731
    problem = pf.Problem(loss, pf.Ball(5.0), dimension=1)
    covariance = np.array([[1.0, 1.0], [1.0, 1.01]])
    shift = lambda a, theta: jnp.concatenate([jnp.zeros(1), a * theta])  # noqa: E731
    environment = pf.LocationFamily(pf.Gaussian(np.array([0.0, 1.0]), covariance), np.array([0.5]), shift)
    method = pf.safe_apda(problem, shift=shift, effect=np.zeros(1))
    assert method.learner.unmoved == (0,)
    state = scan(method, environment, 120).state
    estimate = standard_errors(method, state)
    naive = np.sqrt(float(state.belief.covariance[1, 1] / state.belief.moments.scatter[0, 0]))
    assert estimate.effect_error[0] < 0.2 * naive
    assert abs(estimate.effect[0] - 0.5) <= 4 * estimate.effect_error[0]


def test_rows_at_once_and_one_deployment_at_a_time_are_one_regression(several):
    """The same means, and without a prior the same effect."""
    method, states, decisions, samples = several
    belief = states[-1].belief
    rows = JointMoments.of(np.repeat(decisions, 3, axis=0), samples.reshape(-1, 2))
    with precise():
        one_by_one = JointMoments.at(jnp.asarray(decisions[0]), jnp.asarray(samples[0]))
        for x, z in zip(decisions[1:], samples[1:], strict=True):
            one_by_one = one_by_one.with_samples(jnp.asarray(x), jnp.asarray(z))
        unbiased = method.learner.unbiased(belief).regression
        np.testing.assert_allclose(one_by_one.effect(0.0), rows.effect(0.0), rtol=1e-10)
    np.testing.assert_allclose(belief.skew, 3 * ((decisions - decisions.mean(axis=0)) ** 3).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(unbiased.effect, rows.effect(0.0), rtol=1e-6)
    for moments in (rows, one_by_one, belief):
        np.testing.assert_allclose(moments.data, samples.reshape(-1, 2).mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.decision, decisions.mean(axis=0), rtol=1e-12)
        assert float(moments.count) == 120.0


def test_a_regression_of_all_rows_at_once_is_least_squares_with_weights():
    """Effect, covariance and residuals against numpy.linalg.lstsq; a coordinate that never varied has a huge error."""
    random = np.random.default_rng(3)
    x, weights = random.normal(size=(60, 2)), random.uniform(0.5, 1.0, size=60)
    x[:, 1] = 2.0
    z = 1.0 + x[:, :1] * [0.5, -1.0] + 0.1 * random.normal(size=(60, 2))
    with precise():
        whole, kept = (Regression.of(x, z, weights, reservoir=size) for size in (None, 50))
    root = np.sqrt(weights)[:, None]
    line = np.column_stack([np.ones(60), x[:, 0]])
    fitted, squares, *_ = np.linalg.lstsq(root * line, root * z, rcond=None)
    np.testing.assert_allclose(whole.effect, np.column_stack([fitted[1], np.zeros(2)]), rtol=1e-7, atol=1e-9)
    count = weights.sum() ** 2 / np.sum(weights**2)
    np.testing.assert_allclose(whole.count, count)
    np.testing.assert_allclose(np.diagonal(whole.covariance), squares / weights.sum(), rtol=1e-7)
    apart = x[:, 0] - np.average(x[:, 0], weights=weights)
    np.testing.assert_allclose(whole.moments.scatter[0, 0], count * np.average(apart**2, weights=weights))
    assert whole.reservoir is None
    np.testing.assert_array_equal(kept.reservoir, np.column_stack([x, z])[-50:])


def test_weights_are_as_good_as_repetition():
    random = np.random.default_rng(0)
    decisions, samples = random.normal(size=(20, 2)), random.normal(size=(20, 3))
    twice = JointMoments.of(np.repeat(decisions, 2, axis=0), np.repeat(samples, 2, axis=0))
    weighted = JointMoments.of(decisions, samples, np.full(20, 2.0))
    for part in ("count", "decision", "data", "scatter", "cross"):
        np.testing.assert_allclose(getattr(weighted, part), getattr(twice, part), rtol=1e-12)
    np.testing.assert_allclose(weighted.effect(1e-3), twice.effect(1e-3), rtol=1e-12)


def learned_from(history, **options):
    """The learner of Safe APDA and the regression of a history."""
    method = pf.safe_apda(small()[0], history=history, **options)
    state = method.init(new_key(0))
    return method, state


def line(sd, rows=40, seed=0):
    """Rows of a line with noise of this standard deviation, several at each decision."""
    random = np.random.default_rng(seed)
    x = np.repeat(random.normal(size=(rows // 4, 2)), 4, axis=0)
    return x, 100.0 + x @ EFFECT.T + sd * random.normal(size=x.shape)


@pytest.mark.parametrize("sd", [0.0, 1e-6, 1e-3, 0.5])
def test_a_line_has_no_misfit_however_precise_the_data(sd):
    """What the prior takes off the effect is not misfit, and neither is rounding."""
    method, state = learned_from(line(sd))
    with precise():
        fit = method.learner.fit(state.belief, state.prior.variances(method.learner, state.belief))
    assert float(fit.misfit) < 3.0  # of 9 deployments
    np.testing.assert_allclose(np.asarray(fit.regression.effect), EFFECT, atol=0.05 + sd)


def test_a_datum_without_noise_is_no_misfit_of_the_others():
    x, z = line(0.5)
    method, state = learned_from((x, np.stack([z[:, 0], 100.0 + x @ EFFECT[1]], axis=1)))
    with precise():
        fit = method.learner.fit(state.belief, state.prior.variances(method.learner, state.belief))
    assert float(fit.misfit) < 3.0  # of 9 deployments


def test_noise_in_common_is_an_error_in_common():
    """The variance of Σ_k ⟨direction_k, Â_k⟩ over draws of the noise, the decisions and the prior's effect given."""
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 2))
    x = x - x.mean(axis=0)
    directions, prior = random.uniform(0.5, 1.0, size=(3, 2)), np.full((3, 2), 4.0)
    alike = 0.9 * np.ones((3, 3)) + 0.1 * np.eye(3)
    noise = np.array([0.5, 1.0, 2.0])
    scatter = x.T @ x
    covariance = np.linalg.inv(scatter / noise[:, None, None] + np.eye(2) / 4.0)
    rows = Rows(np.zeros((3, 2)), covariance, noise, prior, alike, scatter)
    draws = 20_000
    roots = np.linalg.cholesky(alike * np.sqrt(noise[:, None] * noise)).T
    cross = np.einsum("ti,ntk->nki", x, random.normal(size=(draws, 30, 3)) @ roots)
    truth = 2.0 * random.normal(size=(draws, 3, 2))
    estimates = np.einsum("kij,nkj->nki", covariance, (cross + truth @ scatter) / noise[:, None])
    errors = np.sum(directions * (estimates - truth), axis=(1, 2))
    with precise():
        both = Rows(np.zeros((3, 2)), covariance, noise, prior, np.eye(3), scatter)
        np.testing.assert_allclose(rows.variance(directions), errors.var(), rtol=0.04)  # four standard errors of 0.01
        assert float(both.variance(directions)) < 0.6 * errors.var()  # independent data would be less unsure together


def test_a_curve_has_a_misfit():
    x, z = line(0.01)
    method, state = learned_from((x, z + x**2))
    with precise():
        fit = method.learner.fit(state.belief, state.prior.variances(method.learner, state.belief))
    assert float(fit.misfit) > 100.0


def test_collinear_decisions_tell_their_sum():
    """Both prices always moved together, 10,000 times: the sum of their effects is known, each alone is not."""
    random = np.random.default_rng(0)
    x = np.repeat(random.normal(size=(10_000, 1)), 2, axis=1)
    method, state = learned_from((x, 100.0 + x @ np.full((2, 2), -2.5) + random.normal(size=x.shape)))
    estimate = standard_errors(method, state)
    np.testing.assert_allclose(estimate.effect.sum(axis=1), -5.0, atol=0.1)  # five standard errors of 0.02
    assert np.all(estimate.effect_error > 100.0)


def test_means_without_rows_show_no_standard_errors_of_their_own():
    method, state = learned_from(pf.Past.of([[1.0, 1.0], [2.0, 1.0], [1.0, 2.0]], np.eye(3)[:, :2], counts=[100] * 3))
    with pytest.raises(ValueError, match="standard errors need more than 4 samples, but got 3"):
        standard_errors(method, state)


@pytest.mark.slow
def test_an_entry_known_to_be_nil_is_nil_in_the_estimates_too():
    method, state = learned_from(line(0.5), signs=[[np.nan, 0.0], [0.0, np.nan]])
    estimate = standard_errors(method, state)
    np.testing.assert_array_equal(estimate.effect[[0, 1], [1, 0]], 0.0)


def test_what_one_more_deployment_teaches_is_what_it_takes_off_the_covariance():
    """Of a matrix and of a structured effect: by the update, and by the inverse of the information."""
    random = np.random.default_rng(2)
    along, slope = random.normal(size=3), random.normal(size=4)
    root = random.normal(size=(3, 3))
    curvature = root @ root.T + np.eye(3)

    def covariance(size):
        half = random.normal(size=(size, size))
        return half @ half.T + 0.1 * np.eye(size)

    tensor, noise = random.normal(size=(2, 5, 3)), np.array([0.3, 0.7])
    rows = Rows(
        np.zeros((4, 3)),
        np.stack([covariance(3) for _ in range(4)]),
        random.uniform(0.5, 1.0, size=4),
        np.ones((4, 3)),
        np.eye(4),
        np.eye(3),
    )
    numbers = Numbers(np.zeros((4, 3)), covariance(5), tensor, noise, (1, 3))
    with precise():
        for known in (rows, numbers):
            after = known.after(along)
            fallen = np.trace(curvature @ (np.asarray(known.total(slope)) - np.asarray(after.total(slope))))
            root = np.linalg.cholesky(curvature)
            taught = known.teaching(slope, root, np.linalg.inv(root))
            np.testing.assert_allclose(taught(along), fallen, rtol=1e-9)
        seen = (tensor @ along) / np.sqrt(noise)[:, None]
        wanted = np.linalg.inv(np.linalg.inv(np.asarray(numbers.covariance)) + seen.T @ seen)
        np.testing.assert_allclose(numbers.after(along).covariance, wanted, rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_of_a_coordinate_does_not_change_the_line_of_a_log(unit):
    random = np.random.default_rng(0)
    decisions = np.array([3.0, 40.0]) + random.normal(size=(200, 2))
    samples = decisions @ np.array([[-2.0, 1.0]]).T + random.normal(size=(200, 1))
    weights = np.ones(200)
    expected = np.asarray(Regression.of(decisions, samples, weights, None).effect)
    measured = np.asarray(Regression.of(decisions * [1.0, unit], samples, weights, None).effect) * [1.0, unit]
    np.testing.assert_allclose(measured, expected, rtol=1e-6)


@pytest.mark.parametrize("filled", [700.0, 2000.0])
def test_curvature_is_computed_from_some_of_the_rows_that_are_filled(filled):
    """Of z⁴/12 over a length h: z² + h²/6, half of the rows being 0 and half 2, in turn. Others, here 100, would change it."""

    def fourth_power(theta, z):
        return z[0] ** 4 / 12.0 + theta[0]

    rows = np.where(np.arange(2000) < filled, np.resize([0.0, 2.0], 2000), 100.0)[:, None]
    belief = Regression.of(np.zeros((2000, 1)), rows, np.ones(2000), reservoir=2000)
    with precise():
        belief = changed(belief, filled=jnp.asarray(filled))
        found = Prediction(fourth_power, apply_effect).curvature(belief, belief.effect, jnp.zeros(1), jnp.full(1, 0.1))
    np.testing.assert_allclose(found, 2.0, rtol=0.25)  # 1/√n of 80 places at random is 0.11


def test_rows_that_fade_keep_their_places_while_there_is_room():
    """Ten deployments of two samples, with old ones fading: a reservoir of 30 holds all 20 rows."""
    random = np.random.default_rng(0)
    method = pf.safe_apda(pf.problems.get("newsvendor").problem, start=[1.0], samples=2, reservoir=30)
    z = random.normal(2.0, 0.5, size=(10, 1, 2, 1))
    state = method.init(new_key(0))
    for t in range(10):
        state = method.tell(state, np.array([[1.0 + 0.1 * t]]), z[t])
        with precise():
            state = changed(state, belief=faded(state.belief, 1.0 if t < 2 else 0.9))
    assert float(state.belief.filled) == 20.0
    assert float(state.belief.count) < 20.0
    np.testing.assert_allclose(np.sort(state.belief.reservoir[:20, 1]), np.sort(z.ravel()))


def test_a_datum_that_is_always_zero_changes_no_probe():
    """What it teaches has a derivative; with two prices, probes are not all on one line because of it."""
    with precise():
        known = Rows(
            jnp.zeros((2, 2)),
            jnp.stack([0.1 * jnp.eye(2), jnp.zeros((2, 2))]),
            jnp.array([0.1, 1e-200]),
            jnp.stack([jnp.ones(2), jnp.zeros(2)]),
            jnp.eye(2),
            jnp.eye(2),
        )
        slope = jax.grad(known.teaching(jnp.ones(2), jnp.eye(2), jnp.eye(2)))(jnp.array([0.1, 0.2]))
    assert np.all(np.isfinite(slope))
    assert np.all(np.asarray(slope) > 0)
