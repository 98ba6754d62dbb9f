"""Posteriors of effects against the textbook's, over all entries at once."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from performative.estimators.fitting import ODDS, Rivals, posterior
from performative.numerics.precision import precise

ROWS, COLUMNS = 3, 2


def _rows(seed, alike=False):
    """Decisions, their data with a noise of 1, a prior and its variances; effects may be alike beyond the prior."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(6, COLUMNS))
    prior, variances = random.normal(size=(ROWS, COLUMNS)), random.uniform(0.5, 2.0, (ROWS, COLUMNS))
    beyond = 1.5 * np.sqrt(variances) if alike else random.normal(size=(ROWS, COLUMNS))
    return x, random.normal(size=(ROWS, 6)) + (prior + beyond) @ x.T, prior, variances


def _textbook(x, z, prior, covariance):
    """The posterior mean of all entries, and the log likelihood of the data up to a constant, for a prior with any covariance."""
    design = np.kron(np.eye(ROWS), x)
    marginal = design @ covariance @ design.T + np.eye(len(design))
    left = z.ravel() - design @ prior.ravel()
    mean = prior.ravel() + covariance @ design.T @ np.linalg.solve(marginal, left)
    likelihood = -0.5 * np.linalg.slogdet(marginal)[1] - 0.5 * left @ np.linalg.solve(marginal, left)
    return mean.reshape(prior.shape), likelihood


def _estimate(x, z, prior, variances, share=None, weak=None, credit=0.0):
    weak = variances if weak is None else weak
    with precise():
        normal = jnp.asarray(np.tile(x.T @ x, (ROWS, 1, 1)))
        gap = jnp.asarray(z @ x - prior @ (x.T @ x))
        rivals = Rivals(None if share is None else jnp.asarray(share), jnp.asarray(weak), jnp.asarray(credit))
        parts = posterior(normal, gap, jnp.asarray(prior), jnp.asarray(variances), None, jnp.eye(COLUMNS), rivals)
    return [np.asarray(part) for part in parts]


@pytest.mark.parametrize("credit", [0.0, 0.5, 1.0])
def test_effects_that_seem_weak_are_taken_to_be_as_far_as_that_has_credit(credit):
    """Weak effects compete with what the first prior says, as likely as the evidence and the odds make them."""
    weights = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        x, z, prior, variances = _rows(seed)
        weak = 0.01 * variances[:, ::-1]
        if seed % 2:
            z = random.normal(size=z.shape) + prior @ x.T
        (first, likely), (small, weakly) = (_textbook(x, z, prior, np.diag(each.ravel())) for each in (variances, weak))
        weight = credit / (1.0 + np.exp(likely - weakly + ODDS))
        estimate, covariance, _, _ = _estimate(x, z, prior, variances, weak=weak, credit=credit)
        np.testing.assert_allclose(estimate, first + weight * (small - first), rtol=1e-9)
        np.testing.assert_allclose(covariance[0], np.linalg.inv(x.T @ x + np.diag(1.0 / variances[0])), rtol=1e-9)
        weights.append(weight)
    assert min(weights) < 0.01  # the data decide
    assert max(weights) >= 0.7 * credit


def test_estimates_average_what_two_priors_say_by_their_evidence():
    """One prior has independent entries; under the other some of them have a share of their variance in common."""
    share = np.array([[0.0, 0.7], [0.7, 0.0], [0.7, 0.7]])
    weights = []
    for seed in range(8):
        x, z, prior, variances = _rows(seed, alike=seed % 2 == 0)
        alone = np.diag(variances.ravel())
        u = np.sqrt(share * variances).ravel()
        together = np.diag(((1.0 - share) * variances).ravel()) + np.outer(u, u)
        (first, first_evidence), (second, second_evidence) = (
            _textbook(x, z, prior, each) for each in (alone, together)
        )
        weight = 1.0 / (1.0 + np.exp(first_evidence - second_evidence))
        estimate, covariance, _, _ = _estimate(x, z, prior, variances, share)
        np.testing.assert_allclose(estimate, first + weight * (second - first), rtol=1e-9)
        np.testing.assert_allclose(covariance[0], np.linalg.inv(x.T @ x + np.diag(1.0 / variances[0])), rtol=1e-9)
        weights.append(weight)
    assert min(weights) < 0.4  # the data decide
    assert max(weights) > 0.6


def test_nothing_in_common_is_one_prior():
    x, z, prior, variances = _rows(0)
    expected = _textbook(x, z, prior, np.diag(variances.ravel()))[0]
    np.testing.assert_allclose(_estimate(x, z, prior, variances, np.zeros_like(variances))[0], expected, rtol=1e-9)


def test_decisions_on_a_line_and_next_to_no_noise_leave_finite_estimates():
    """What is in common is weighed by a difference of two numbers that may be immense, and nearly equal."""
    share = np.full((ROWS, COLUMNS), 0.7)
    for seed in range(20):
        random = np.random.default_rng(seed)
        x = random.normal(size=(6, 1)) * random.normal(size=COLUMNS)
        effect = random.normal(size=(ROWS, COLUMNS))
        for noise in (1e-8, 1e-13, 1e-150):
            normal = np.tile(x.T @ x / noise, (ROWS, 1, 1))
            gap = effect @ (x.T @ x) / noise
            with precise():
                parts = posterior(
                    jnp.asarray(normal), jnp.asarray(gap), jnp.zeros(effect.shape), jnp.ones(effect.shape), None,
                    jnp.eye(COLUMNS), Rivals(jnp.asarray(share), jnp.full(effect.shape, 0.01), jnp.ones(())),
                )  # fmt: skip
            assert all(np.all(np.isfinite(part)) for part in parts)
            np.testing.assert_allclose(np.asarray(parts[0]) @ x.T, effect @ x.T, rtol=1e-3, atol=1e-3)


def test_signs_that_are_known_turn_what_is_in_common():
    """Complements and substitutes: effects of ±1, of which two were observed, say what the third one is."""
    signs = np.array([[1.0], [-1.0], [1.0]])
    normal = np.array([[[100.0]], [[100.0]], [[0.0]]])
    gap = 100.0 * np.array([[1.0], [-1.0], [0.0]])
    with precise():
        estimate = posterior(
            *map(jnp.asarray, (normal, gap, np.zeros((3, 1)), np.ones((3, 1)), signs)),
            jnp.eye(1),
            Rivals(jnp.full((3, 1), 0.9), jnp.ones((3, 1)), jnp.zeros(())),
        )[0]
    assert float(estimate[2, 0]) > 0.4
