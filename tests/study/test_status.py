"""Where a study stands: estimates with their errors, the predicted optimum, the history and the figure."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from market import EFFECT, MARKET, PROBLEM, answer, market_problem, run

import performative as pf
from performative import losses
from performative.numerics.precision import precise
from performative.study import belief, history
from performative.study import status as status_module
from performative.study.belief import Predicted
from performative.study.history import Column


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    path = tmp_path_factory.mktemp("status") / "prices.db"
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM, samples=2)) as study:
        run(study, 400)
        yield study


def test_status_tells_where_the_study_stands(learned):
    status = learned.status()
    assert status.round == 400
    assert status.told == 400
    best, stable = pf.performative_optimum(PROBLEM, MARKET), pf.stable_point(PROBLEM, MARKET)
    assert np.all(np.abs(status.effect - EFFECT) < 4 * status.effect_error)
    assert np.all(status.effect_error < 0.3)
    # The least of many lower bounds, in a world that need not be linear; the stable point is farther from what was deployed.
    for estimate, truth, widest in ((status.optimum, best, 0.8), (status.stable, stable, 1.6)):
        # An effect known to within 0.1 moves the optimum along the cap by about 0.15: two of these.
        np.testing.assert_allclose(estimate.decision, truth.decision, atol=0.3)
        assert estimate.low < truth.risk < estimate.high
        assert estimate.high - estimate.low < widest
    assert status.now.low < status.now.risk < status.now.high
    at_start, now = (float(pf.performative_risk(PROBLEM, MARKET, x)) for x in (status.gain.start, status.decision))
    assert 0 < status.gain.low < at_start - now < status.gain.high  # the risk is lower now: a gain is positive
    assert status.now.risk >= status.optimum.risk - 1e-6
    assert status.stable.risk > status.optimum.risk
    past = learned.history()
    away, at = (past[name].values.reshape(400, 2) for name in ("deployed", "decision"))
    risks = [-np.sum(x * ([4.0, 5.0] + x @ EFFECT.T), axis=1) for x in (away, at)]
    # A sum over 400 deployments of differences that are small against the risk itself.
    total = np.sum(np.abs(risks[0]))
    assert status.exploration_cost == pytest.approx(np.sum(risks[0] - risks[1]), rel=0.2, abs=2e-3 * total)
    assert status.slack["cap"] == pytest.approx(4.0 - status.decision.sum())
    assert status.slack_history.shape == (400, 1)
    assert status.slack_history.min() >= 0
    assert "deploy [" in status.next_action
    assert "it costs you about" in " ".join(str(status).split())
    assert not [w for w in status.warnings if "location family" in w or "drift" in w or "step" in w]
    assert "risk optimum" in status.theory()


def test_nothing_is_sure_before_more_decisions_were_deployed_than_they_have_numbers(path):
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM, samples=5)) as study:
        run(study, 2)
        status = study.status()
        assert status.effect_error is None
        assert status.now.low is None
        assert status.now.reason == status.gain.reason == status.optimum.reason == "too early, 2 more deployments"
        assert "too early, 2 more deployments" in str(status)
        assert "risk now     too early, 2 more deployments" in status.theory()
        assert status.plain()["now"]["risk"] is None
        assert status.plain()["now"]["reason"] == "too early, 2 more deployments"
        run(study, 3)
        assert study.status().now.reason == "too early, 1 more deployment"
        run(study, 5)
        status = study.status()
        assert status.effect_error is not None
        assert [line for line in str(status).splitlines() if line.startswith("why: ")]
        assert status.why == study.why()


def test_a_status_has_what_every_deployment_brought(learned):
    status, past = learned.status(), learned.history()
    np.testing.assert_array_equal(status.losses, past["loss"].values[:, 0])
    assert status.samples.tolist() == [2] * 400
    assert status.start.risk is None  # it begins with prices of 0, which lose nothing: any interval is wider than that
    assert status.start_value is None
    assert re.search(r"at the start +about -?0", str(status))
    plain = status.plain()
    assert plain["losses"] == status.losses.tolist()
    assert plain["samples"] == [2] * 400
    assert plain["deployed_slack"] == {"cap": pytest.approx(learned.ask().why.safety[0, 0])}
    assert plain["gain_share"] is None


def test_standard_errors_of_losses_are_those_of_their_samples(learned):
    past = learned.history()
    deployment = learned.deployment(int(past["deployment"][7]))
    losses = -answer(deployment)[0] @ deployment.decisions[0]
    np.testing.assert_allclose(past["loss_error"][7], np.std(losses, ddof=1) / np.sqrt(2), rtol=1e-9)


def test_one_sample_has_no_standard_error(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM, samples=1)) as study:
        study.tell(study.ask(), answer(study.ask()))
        assert np.isnan(study.history()["loss_error"].values).all()
        *_, last = study.events()
        assert last.loss_errors is None


def test_where_it_is_too_early_for_the_risk_it_is_too_early_for_the_optimum():
    """The loss now is hidden by an interval wider than it is; so is that of the optimum, whatever was found."""
    early = Predicted(np.zeros(1), None, None, None, "too early, 3 more deployments")
    best = Predicted(np.ones(1), -1.0, -2.0, -0.5)
    assert status_module._as_early(early, best) == Predicted(best.decision, None, None, None, early.reason)
    assert status_module._as_early(best, best) is best
    assert status_module._as_early(early, None) is None


def test_history_is_what_was_told(learned):
    past = learned.history()
    assert past.sizes == {"deployment": 400, "dimension": 2, "constraint": 1, "probe": 1, "number": 2}
    deployment = learned.deployment(int(past["deployment"][7]))
    np.testing.assert_array_equal(past["deployed"][7], deployment.decisions)
    samples = answer(deployment)
    np.testing.assert_array_equal(past["data"][7], samples.mean(axis=1))
    np.testing.assert_allclose(past["loss"][7], -np.mean(samples[0] @ deployment.decisions[0]))
    assert (past["told"] >= past["asked"]).all()
    assert len(learned.plot().axes) == 2 + 4 + 1  # two products, four panels, the scale of the colors
    assert all(past[name].attrs["description"] for name in past.variables if name != "constraint")


def test_status_and_history_before_anything_was_told(study):
    assert study.history().sizes["deployment"] == 0
    status = study.status()
    assert status.told == 0
    assert status.deployed is None
    assert status.next_action == "ask for the next decisions"
    assert len(study.plot().axes) == 2 + 4


@pytest.mark.slow
def test_status_of_a_method_without_standard_errors_is_least_squares_of_the_log(path):
    """And of a loss with kinks."""
    problem = market_problem(loss=losses.Pinball(0.8))
    with pf.Study.create(path, "eu", pf.apda(problem, warmup=20, exploration=0.3, start=[1.0, 1.0])) as study:
        run(study, 100)
        status = study.status()
        pairs = [(d.decisions, answer(d)) for d in map(study.deployment, study.history()["deployment"].values)]
    x = np.concatenate([np.repeat(x, z.shape[1], axis=0) for x, z in pairs])
    z = np.concatenate([z.reshape(-1, 2) for _, z in pairs])
    line = np.column_stack([np.ones(len(x)), x])
    fitted, (squares, _), *_ = np.linalg.lstsq(line, z, rcond=None)
    np.testing.assert_allclose(status.effect, fitted[1:].T, rtol=1e-6)
    error = np.sqrt(squares / (len(x) - 3) * np.diag(np.linalg.inv(line.T @ line))[1:])
    np.testing.assert_allclose(status.effect_error[0], error, rtol=1e-6)
    assert status.now.low < status.now.risk < status.now.high
    assert status.optimum.risk <= status.now.risk + 1e-6


def test_what_is_forgotten_counts_as_little_in_the_status():
    recent = belief.Recent()
    for number in range(4):
        recent.add(number, np.full((2, 1), float(number)), np.zeros((2, 1, 3)))
    _, _, weights = recent.rows(4.0)  # 2, 4, then 4 of 4 + 2 are kept twice
    np.testing.assert_allclose(weights, np.repeat([2 / 3, 2 / 3, 2 / 3, 1.0], 2))
    np.testing.assert_array_equal(recent.rows(None)[2], np.ones(8))
    assert recent.distinct_decisions() == 4


@pytest.mark.slow
def test_a_method_that_knows_the_structure_of_the_effect_is_asked_for_it(path):
    """Each price moves its own demand alone: the status has one number for each, as the method has learned it."""
    structured = pf.safe_apda(PROBLEM, shift=lambda effect, theta: effect * theta, effect=[-1.0, -1.0])
    with pf.Study.create(path, "eu", structured) as study:
        assert study.status().effect is None
        run(study, 8)
        status = study.status()
        with precise():
            learned = structured.learner.unbiased(jax.tree.map(jnp.asarray, study.state.belief)).regression.effect
        np.testing.assert_allclose(status.effect, learned, rtol=1e-9)
        assert pf.safe_apda(PROBLEM).structure(study.state) is None
    assert status.effect.shape == status.effect_error.shape == (2,)


@pytest.mark.parametrize("method", [pf.safe_apda(PROBLEM, samples=4), pf.apda(PROBLEM, warmup=4, start=[1.0, 1.0])])
def test_a_status_that_goes_on_from_the_last_one_is_that_of_a_study_just_opened(path, method):
    with pf.Study.create(path, "eu", method) as study:
        for rounds in (0, 3, 9, 10, 12):
            run(study, rounds)
            going_on = study.status()
            with pf.Study.open(path, "eu", method, readonly=True) as opened:
                fresh = opened.status()
            for name, one, other in zip(fresh._fields, going_on, fresh, strict=True):
                if name not in ("stable", "optimum"):
                    assert str(one) == str(other), name
            for one, other in ((going_on.stable, fresh.stable), (going_on.optimum, fresh.optimum)):
                assert (one is None) == (other is None)
                if one is not None and one.risk is not None and one.low is not None:
                    assert one.risk <= other.risk + 1e-4 * (other.high - other.low)


@pytest.mark.parametrize("together", [7, 4096])
def test_columns_of_a_history_grow_in_both_directions(together, monkeypatch):
    """Rounds may deploy more decisions than those before; what they lack is NaN."""
    monkeypatch.setattr(history, "TOGETHER", together)
    column = Column()
    rows = [np.full((1 + place // 50, 2), float(place)) for place in range(150)]
    for row in rows:
        column.add(row)
    assert column.rows.shape == (150, 3, 2)
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(column.rows[place, : len(row)], row)
        assert np.all(np.isnan(column.rows[place, len(row) :]))


def test_what_exploration_cost_is_looked_at_in_some_of_many_deployments(monkeypatch):
    """Of 300 decisions a third explored; the risk is θ², so that each lost 0.01 over θ = 0."""
    world = SimpleNamespace(curved=jax.tree_util.Partial(lambda theta: jnp.sum(theta**2)))
    decision = np.zeros((300, 1))
    deployed = np.where(np.arange(300) % 3 == 0, 0.1, 0.0)[:, None, None]
    assert belief.cost(world, deployed, decision) == pytest.approx(1.0)
    monkeypatch.setattr(belief, "PROBES", 10)
    assert belief.cost(world, deployed, decision) == pytest.approx(1.0)


def test_a_status_that_was_interrupted_is_read_anew(path, monkeypatch):
    method = pf.repeated_gradient(PROBLEM)
    with pf.Study.create(path, "eu", method) as study:
        run(study, 3)
        study.status()
        run(study, 6)
        with monkeypatch.context() as broken:
            broken.setattr(belief, "believed", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                study.status()
        status = study.status()
        assert status is study.status()  # nothing happened since
        with pf.Study.open(path, "eu", method) as opened:
            fresh = opened.status()
        assert (status.told, status.slack_history.shape) == (fresh.told, fresh.slack_history.shape)
