"""A world that need not be linear: what it calls curved, where it is sure, and how often its intervals hold the truth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from performative.estimators.curved import CHOSEN, CurvedRisk, Deployed, bends, fit
from performative.numerics.precision import precise
from performative.numerics.pytrees import callable_node

LOSS = callable_node(lambda theta, z: -jnp.sum(theta * z))


def deployments(seed, bend, n=30, samples=40, shared=0.0, spread=0.4):
    """Sales 10 − 3x + bend·(x − 2)² at prices around 2, in one dimension."""
    random = np.random.default_rng(seed)
    x = 2.0 + spread * random.uniform(-1.0, 1.0, (n, 1))
    common = shared * random.normal(size=(n, 1, 1))
    z = sales(x, bend)[:, None] + common + random.normal(size=(n, samples, 1))
    means = z.mean(axis=1)
    apart = (z - means[:, None]).reshape(-1, 1)
    rows = np.concatenate([np.repeat(x, samples, axis=0), z.reshape(-1, 1)], axis=1)[-500:]
    return Deployed(x, means, np.full(n, float(samples)), np.ones(n), apart.T @ apart, n * (samples - 1.0), rows)


def sales(x, bend):
    return 10.0 - 3.0 * x + bend * (x - 2.0) ** 2


@jax.jit
def asked(risk, theta, start):
    return risk(theta), risk.error(theta), *risk.gap(theta, start)


def world(*args, **options):
    with precise():
        return CurvedRisk.of(LOSS, fit(deployments(*args, **options), np.array([4.0])))


def test_a_straight_world_is_called_straight_and_a_curved_one_is_not():
    """In multiples of the size of the data, about 4, across a range of 4: a bend of 0.6 is about 2, and one of 6 about 20."""
    straight, curved, very = (
        np.mean([float(world(seed, bend, spread=1.2).world.curvature) for seed in range(5)]) for bend in (0.0, 0.6, 6.0)
    )
    assert straight < 0.8
    assert 1.5 < curved < 4.0
    assert 7.0 < very < 40.0


def test_what_samples_of_a_deployment_share_is_told_from_their_noise():
    """In multiples of the variance of a mean of 40 samples: half a standard deviation is 40/4."""
    alone, together = (
        np.mean([float(world(seed, 0.0, shared=s).world.shared) for seed in range(5)]) for s in (0.0, 0.5)
    )
    assert alone < 0.5
    assert 5.0 < together < 40.0


@pytest.mark.parametrize(("bend", "shared"), [(0.0, 0.0), (6.0, 0.0), (0.0, 0.5)])
def test_intervals_hold_the_truth(bend, shared):
    """95% intervals in 40 worlds: fewer than 35 would be an accident of one in a thousand."""
    theta, start = np.array([2.3]), np.array([1.7])
    truth, gain = -theta @ sales(theta, bend), theta @ sales(theta, bend) - start @ sales(start, bend)
    held = np.zeros(2)
    for seed in range(40):
        with precise():
            risk = world(seed, bend, shared=shared)
            r, error, g, gap_error = (float(part) for part in asked(risk, theta, start))
        quantile = float(risk.world.quantile)
        held += [abs(r - truth) <= quantile * error, abs(g - gain) <= quantile * gap_error]
    assert np.all(held >= 35)


def chased(seed, rounds=30, samples=20):
    """Deployments around the best price so far, from 2 on, where sales are 2 less the slope times the rise; the last best one."""
    random = np.random.default_rng(seed)
    slope, best = random.uniform(0.5, 1.5), 2.0
    x, z = np.empty((0, 1)), np.empty((0, samples, 1))
    for number in range(rounds):
        probe = 0.4 * (number + 1) ** -0.25 * random.choice([-1.0, 1.0]) if number else 0.0
        x = np.append(x, [[best + probe]], axis=0)
        z = np.append(z, [2.0 - slope * (x[-1] - 2.0) + random.normal(size=(samples, 1))], axis=0)
        if number > 1:
            fall, level = np.polyfit(x[:, 0], z.mean(axis=1)[:, 0], 1)
            best = np.clip(-level / (2.0 * fall), 0.5, 4.0) if fall < 0 else 4.0
    means = z.mean(axis=1)
    apart = (z - means[:, None]).reshape(-1, 1)
    rows = np.concatenate([np.repeat(x, samples, axis=0), z.reshape(-1, 1)], axis=1)[-500:]
    counts = np.full(rounds, float(samples))
    return (
        slope,
        best,
        Deployed(x, means, counts, np.ones(len(counts)), apart.T @ apart, rounds * (samples - 1.0), rows),
    )


def test_the_gain_of_a_price_that_looked_best_is_held():
    """The start is deployed once, and the same data choose the price, say where to deploy next, and what is gained."""
    start, held = np.array([2.0]), 0
    for seed in range(60):
        slope, best, deployed = chased(seed)
        with precise():
            risk = CurvedRisk.of(LOSS, fit(deployed, np.array([5.0])))
            _, _, gain, error = (float(part) for part in asked(risk, np.array([best]), start))
        truth = best * (2.0 - slope * (best - 2.0)) - 4.0
        held += abs(gain - truth) <= float(risk.world.quantile) * error
    assert held >= 52  # fewer would be an accident of one in three hundred; of the negative gains, they would hold 45


def test_far_from_what_was_deployed_it_is_unsure():
    with precise():
        risk = world(0, 0.0)
        near, far = (float(risk.error(jnp.array([x]))) for x in (2.0, 3.5))
        low, high = (float(part[0]) for part in risk.world.trusted())
    assert far > 5 * near
    assert 1.2 < low < 1.7 < 2.3 < high < 2.8


@pytest.mark.parametrize("samples", [1, 20])
def test_errors_where_old_deployments_fade_are_as_large_as_those_of_the_estimates(samples):
    """A straight world of 150 deployments, with weights as of `forgetting=0.9`: from 1 to 1.6, CHOSEN included."""
    off, errors = [], []
    for seed in range(40):
        made = deployments(seed, 0.0, n=150, samples=samples)
        made = made._replace(weights=0.9 ** np.arange(150.0)[::-1])
        with precise():
            value, error, *_ = asked(
                CurvedRisk.of(LOSS, fit(made, np.array([4.0]))), jnp.array([2.0]), jnp.array([1.8])
            )
        off.append(float(value) + 2.0 * sales(2.0, 0.0))
        errors.append(float(error))
    assert 0.8 < np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(off))) < 1.9


def test_the_error_amid_everything_deployed_is_little_more_than_that_of_a_mean():
    """Of 1200 samples of unit variance, where the loss is −2z."""
    with precise():
        risk = world(0, 0.0)
        error = float(risk.error(jnp.array([2.0])))
    assert 1.0 < error / (CHOSEN * 2.0 / np.sqrt(1200)) < 1.6


def test_all_directions_are_alike():
    random = np.random.default_rng(0)
    u, v = random.normal(size=(2, 3))
    assert bends(u) @ bends(v) == pytest.approx((u @ v) ** 2 + (u @ v) ** 3)
    assert bends(np.ones(40)).shape == bends(np.ones(60)).shape


def good_weeks(seed, n=40, samples=40):
    """Three products whose sales rise and fall together from week to week, but not from store to store."""
    random = np.random.default_rng(seed)
    x = 2.0 + 0.4 * random.uniform(-1.0, 1.0, (n, 3))
    z = 10.0 - 3.0 * x[:, None] + 0.5 * random.normal(size=(n, 1, 1)) + random.normal(size=(n, samples, 3))
    means = z.mean(axis=1)
    apart = (z - means[:, None]).reshape(-1, 3)
    rows = np.concatenate([np.repeat(x, samples, axis=0), z.reshape(-1, 3)], axis=1)[-500:]
    return Deployed(x, means, np.full(n, float(samples)), np.ones(n), apart.T @ apart, n * (samples - 1.0), rows)


def test_what_products_have_in_common_from_week_to_week_is_in_the_errors():
    """The revenue of all at 2 is 24: with errors of independent products, 80% of its 95% intervals hold it."""
    theta, held, alike = jnp.full(3, 2.0), [], []
    for seed in range(40):
        with precise():
            risk = CurvedRisk.of(LOSS, fit(good_weeks(seed), np.full(3, 4.0)))
            value, error = float(risk(theta)), float(risk.error(theta))
        held.append(abs(value + 24.0) <= float(risk.world.quantile) * error)
        between = np.asarray(risk.world.between)
        alike.append(between[0, 1] / np.sqrt(between[0, 0] * between[1, 1]))
    assert np.mean(held) >= 0.88  # 95 % less two standard errors of forty
    assert np.mean(alike) > 0.7
    assert abs(np.asarray(risk.world.noise)[0, 1]) < 0.1  # samples of a week vary on their own
