"""Warnings to a practitioner: of data, steps and constraints."""

import jax.numpy as jnp
import numpy as np
import pytest
from market import EFFECT, PROBLEM, run

import performative as pf
from performative.study import belief, cautions


def alarms(x, means, counts=None, forgets=False):
    return list(cautions.data(x, means, np.ones(len(x)) if counts is None else counts, forgets))


def test_warnings_of_data_and_steps():
    random = np.random.default_rng(0)
    x = random.uniform(1.0, 2.0, size=(300, 2))
    noise = 0.3 * random.normal(size=(300, 2))
    time_ = np.linspace(0.0, 1.0, 300)[:, None]
    assert alarms(x, x @ EFFECT.T + noise) == []
    assert "drift" in alarms(x, x @ EFFECT.T + noise + time_)[0]
    assert alarms(x, x @ EFFECT.T + noise + time_, forgets=True) == []
    assert "linearly" in alarms(x, 2.0 * x**2 + noise)[0]
    assert "spread" in alarms(x, x @ EFFECT.T + noise * (x[:, :1] - 0.9) * 5)[0]
    counts = np.round(1.0 + 50.0 * (x[:, 0] - 1.0))  # more samples at higher prices are no wider spread
    assert alarms(x, x @ EFFECT.T + noise / np.sqrt(counts)[:, None], counts) == []
    forth = np.array([[(-1.0) ** t, 0.0] for t in range(30)])
    assert "back and forth" in next(cautions.step(object(), None, forth))
    assert list(cautions.step(object(), None, random.normal(size=(30, 2)).cumsum(axis=0))) == []


def test_a_false_alarm_is_rare():
    alarm_count = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        x = random.uniform(0.0, 1.0, size=(100, 3)) * np.linspace(1.0, 0.2, 100)[:, None]
        alarm_count += len(alarms(x, x @ random.normal(size=(3, 2)) + random.normal(size=(100, 2))))
    assert alarm_count <= 2  # 600 tests at 1e-4


def test_data_without_noise_raise_no_alarm():
    """All that a line leaves of them is rounding, which drifts and widens as it likes."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        x = random.normal(size=(100, 2)) + 10.0 ** random.uniform(-1, 2)
        assert alarms(x, 1000.0 + x @ random.normal(size=(2, 2))) == []


@pytest.mark.slow
def test_a_step_that_is_too_large_is_named(path):
    with pf.Study.create(path, "eu", pf.apda(PROBLEM, warmup=20, step=5.0)) as study:
        run(study, 5)
        warnings = study.status().warnings
    assert any("the step 5 is too large: above" in warning for warning in warnings)
    assert any("cap was violated by" in warning for warning in warnings)


def test_a_step_is_judged_by_what_the_method_descends(path):
    """On data as they are the risk −θz with z = 4 − θ bends by 1, with the reaction foreseen by 2."""
    problem = pf.Problem(lambda theta, z: -jnp.sum(theta * z), pf.Box([0.0], [6.0]))
    counts = []
    for method in (pf.repeated_gradient(problem, step=1.5), pf.apda(problem, step=1.5, warmup=20, start=[1.0])):
        with pf.Study.create(path, type(method.estimator).__name__, method) as study:
            for t in range(6):
                deployment = study.ask()
                noise = 0.01 * np.random.default_rng(t).normal(size=(len(deployment.decisions), deployment.samples, 1))
                study.tell(deployment, 4.0 - deployment.decisions[:, None] + noise)
            recent = belief.Recent()
            for one in study._session.log.reported():
                recent.add(one.asked.number, one.asked.decisions, one.observed.samples)
            world = belief.believed(method, study.state, recent)
            warnings = cautions.step(method, world, study.state.decision[None])
            counts.append(len([warning for warning in warnings if "too large: above" in warning]))
    assert counts == [0, 1]
