"""Studies: the same bits whoever holds the file, deployments asked for, told, canceled and noted, and names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from market import MARKET, PROBLEM, answer, kinds, run, stored

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key
from performative.simulation.engine import round_keys
from performative.study import AlreadyTold, StudyError, worker
from performative.study.states import packed_state

METHODS = {
    "safe": lambda: pf.safe_apda(PROBLEM),
    "apda": lambda: pf.apda(PROBLEM, warmup=20),
    "recycle": lambda: pf.apda(PROBLEM, warmup=20, recycle=True),
    "rgd": lambda: pf.repeated_gradient(PROBLEM),
}


EACH = [pytest.param(name, marks=[pytest.mark.slow] if name == "recycle" else []) for name in METHODS]


@pytest.mark.parametrize("name", EACH)
def test_closed_after_every_call_or_never_the_bits_are_the_same(path, name):
    make = METHODS[name]
    with pf.Study.create(path, "never", make()) as never:
        run(never, 12)
        assert never.verify().told in (12, 11)
    pf.Study.create(path, "always", make()).close()
    while True:
        with pf.Study.open(path, "always", make()) as study:
            deployment = study.ask()
        if deployment.round >= 12:
            break
        with pf.Study.open(path, "always", make()) as study:
            assert study.ask().id == deployment.id
            study.tell(deployment.id, answer(deployment))
    heads = stored(path)[2]
    assert heads[0][1] == heads[1][1]
    with pf.Study.open(path, "always", make()) as study:
        study.verify()
        assert study.state.round == 12


draw = jax.jit(MARKET.sample, static_argnums=2)


@pytest.mark.parametrize("name", EACH)
def test_a_study_agrees_with_the_simulation_on_the_same_data(path, name):
    method = METHODS[name]()
    with pf.Study.create(path, "eu", method, seed=3) as study:
        lane = jax.random.fold_in(new_key(3), 0)
        while (deployment := study.ask()).round <= 20:
            with precise():
                keys = round_keys(lane, deployment.round, 2)
                samples = [
                    draw(keys[1 + i], jnp.asarray(theta), deployment.samples)
                    for i, theta in enumerate(deployment.decisions)
                ]
            told = study.tell(deployment, np.stack(samples))
        runs = pf.simulate({"m": method}, MARKET, rounds=20, realizations=1, seed=3).isel(
            algorithm=0, realization=0, t=-1
        )
        np.testing.assert_allclose(told.decision_before, runs.decision, rtol=0, atol=1e-9)
        np.testing.assert_allclose(told.multipliers, runs.multipliers, rtol=0, atol=1e-9)
        study.verify()


def test_varying_numbers_of_samples(path):
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM)) as study:
        for n in (1, 3, 1, 3):
            deployment = study.ask()
            study.tell(deployment, answer(deployment, n))
        study.verify()
        assert study.history()["samples"].values.tolist() == [1, 3, 1, 3]
        assert float(study.state.belief.count) == 8


def test_asking_is_idempotent_and_says_why(path):
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM)) as study:
        run(study, 5)
        one, other = study.ask(), study.ask()
        assert one.id == other.id
        assert one.round == 5
        assert one.samples == 1
        assert one.decisions.shape == (1, 2)
        np.testing.assert_array_equal(one.why.exploration, one.decisions - np.asarray(study.state.decision))
        np.testing.assert_allclose(one.why.safety, [[4.0 - one.decisions.sum()]])
        assert one.why.safety.min() > 0
        assert one.why.multipliers.shape == (1,)
        assert study.pending.id == one.id
    assert kinds(path).count("ask") == 6


def test_the_same_tell_twice_is_accepted_once_and_answered_alike_and_another_is_refused(study, path):
    first = study.ask()
    told = study.tell(first, answer(first))
    assert told.round == 2
    np.testing.assert_array_equal(told.decision_before, first.why.decision)
    run(study, 4)
    before = stored(path)
    again = study.tell(first, answer(first))
    assert all(np.array_equal(a, b) for a, b in zip(told, again, strict=True))
    with pytest.raises(AlreadyTold, match="already reported with other samples"):
        study.tell(first, answer(first) + 1.0)
    with pytest.raises(AlreadyTold, match="cannot be canceled, since it was already reported"):
        study.cancel(first, "late")
    assert stored(path) == before


@pytest.mark.parametrize("make", [pf.safe_apda, pf.one_point])
def test_canceling_makes_another_attempt_at_the_same_round(path, make):
    """With new random numbers; Safe APDA has planned its decision, and asks for it again."""
    with pf.Study.create(path, "eu", make(PROBLEM)) as study:
        run(study, 4)
        first = study.ask()
        study.cancel(first, "shop closed")
        study.cancel(first, "shop closed")
        study.note("open again on Monday")
        with pytest.raises(AlreadyTold, match="canceled: shop closed"):
            study.tell(first, answer(first))
        second = study.ask()
        assert second.id != first.id
        assert second.round == first.round
        assert np.array_equal(second.decisions, first.decisions) == (make is pf.safe_apda)
    with pf.Study.open(path, "eu", make(PROBLEM)) as study:
        assert study.ask().id == second.id
        study.tell(second, answer(second))
        assert study.verify().told == first.round + (make is pf.safe_apda)
    assert kinds(path)[-5:] == ["ask", "cancel", "note", "ask", "tell"]


def test_notes_do_not_hide_what_is_open(study):
    deployment = study.ask()
    for word in ("one", "two"):
        study.note(word)
    assert study.ask().id == deployment.id
    study.tell(deployment, answer(deployment))
    study.note("three")
    with pf.Study.open(study._session.log.store.path, "eu", study.method) as other:
        assert other.ask().round == deployment.round + 1


def test_a_wrong_deployment_is_refused(study, path):
    before = stored(path)
    for wrong in (1, 0, -1, 10**30):
        with pytest.raises(ValueError, match="must be the number of a deployment, but"):
            study.tell(wrong, np.zeros((1, 1, 2)))
    with pytest.raises(TypeError, match="what `ask` returned or its id"):
        study.tell("1", np.zeros((1, 1, 2)))
    assert stored(path) == before
    deployment = study.ask()
    other = deployment._replace(decisions=deployment.decisions + 1.0)
    with pytest.raises(ValueError, match="must belong to this study"):
        study.tell(other, answer(deployment))
    study.note("an event, but no deployment")
    with pytest.raises(ValueError, match="event 2 is a note"):
        study.tell(2, answer(deployment))
    with pytest.raises(ValueError, match="`reason`"):
        study.cancel(deployment, "")
    with pytest.raises(ValueError, match="`text`"):
        study.note("")
    assert kinds(path) == ["create", "ask", "note"]


@pytest.mark.parametrize("method", [5, "safe_apda", pf.safe_apda, None])
def test_what_is_no_method_is_refused(path, method):
    with pytest.raises(TypeError, match="`method` must be a method such as"):
        pf.Study.create(path, "eu", method)
    assert not path.exists()
    assert jax.tree.leaves(("x", 1)) == ["x", 1]


def test_the_state_is_of_plain_float64_arrays(study):
    run(study, 2)
    assert isinstance(study.state.decision, np.ndarray)
    assert (study.state.decision * 1.5).dtype == np.float64


def test_names(study, path):
    with pytest.raises(StudyError, match="already has a study 'eu'"):
        pf.Study.create(path, "eu", study.method)
    with pytest.raises(StudyError, match="has no study 'us'; it holds 'eu'"):
        pf.Study.open(path, "us", study.method)
    with pytest.raises(ValueError, match="`name`"):
        pf.Study.create(path, "", study.method)
    with pytest.raises(ValueError, match="`seed`"):
        pf.Study.create(path, "us", study.method, seed=-1)
    with pytest.raises(StudyError, match=r"does not exist; create a study with Study\.create"):
        pf.Study.open(path.with_name("none.db"), "eu", study.method)
    with pytest.raises(StudyError, match="directory"):
        pf.Study.create(path.parent / "none" / "a.db", "eu", study.method)


def test_several_studies_in_a_file_do_not_meet(path):
    with (
        pf.Study.create(path, "eu", METHODS["rgd"]()) as eu,
        pf.Study.create(path, "us", METHODS["safe"](), seed=5) as us,
    ):
        for rounds in range(2, 6):
            run(eu, rounds)
            run(us, rounds)
        eu.verify()
        us.verify()


def test_readers_read_and_do_not_write(study, path):
    run(study, 3)
    with pf.Study.open(path, "eu", study.method, readonly=True) as reader:
        assert reader.state.round == 3
        run(study, 5)
        assert reader.state.round == 5
        assert reader.ask().id == study.ask().id
        with pytest.raises(StudyError, match="was opened with readonly=True"):
            reader.note("no")


def test_a_closed_study_says_so_and_writes_nothing(study, path):
    study.close()
    with pytest.raises(StudyError, match="was closed"):
        study.ask()
    assert kinds(path) == ["create"]


def test_a_state_that_another_version_wrote_cannot_be_continued(path, monkeypatch):
    make = METHODS["rgd"]
    with pf.Study.create(path, "eu", make()) as study:
        study.tell(study.ask(), answer(study.ask()))
    names = worker.leaf_names
    monkeypatch.setattr(worker, "leaf_names", lambda state: [*names(state), ".new"])
    with (
        pf.Study.open(path, "eu", make()) as study,
        pytest.raises(StudyError, match=r"other parts than this version's \(\.new\).* as `history`"),
    ):
        study.tell(study.ask(), answer(study.ask()))


def test_a_problem_without_constraints_or_method_at_hand_waits_for_its_samples(path):
    problem = pf.Problem(PROBLEM.loss, pf.Box([0.0, 0.0], [5.0, 5.0]))
    with pf.Study.create(path, "free", pf.safe_apda(problem, start=[1.0, 1.0], samples=5)) as study:
        asked = study.ask()
    with pf.Study.open(path, "free", readonly=True) as study:
        assert study.pending.id == asked.id
        assert study.why().numbers["action"] == "start"


@pytest.mark.parametrize("name", ["safe", "rgd", "apda"])
def test_what_was_really_deployed_is_what_is_learned_from(path, name):
    """To the bit what the method's own `tell` makes of it; other studies that were told the same stand at the same state."""
    method = METHODS[name]()
    with pf.Study.create(path, "eu", method) as study:
        run(study, 2)
        asked = study.ask()
        rounded = np.round(asked.decisions, 1) + 0.05
        samples = answer(asked._replace(decisions=rounded))
        with precise():
            expected = study._session.worker.calls.tell(study._session.worker.state, rounded, samples)[0]
        told = study.tell(asked, samples, deployed=rounded)
        assert told.violated == {}
        assert study._session.log.store.state == packed_state(expected)
        past = study.history().isel(deployment=-1)
        np.testing.assert_array_equal(past["deployed"].values, rounded)
        np.testing.assert_array_equal(past["proposed"].values, asked.decisions)
        np.testing.assert_allclose(past["slack"].values[:, 0], 4.0 - rounded.sum(axis=1))
        rows = list(study.records())[-len(rounded) :]
        assert [[row["theta_0"], row["theta_1"]] for row in rows] == rounded.tolist()
        assert [[row["proposed_0"], row["proposed_1"]] for row in rows] == asked.decisions.tolist()
        study.verify()
        before = stored(path)
        assert study.tell(asked, samples, deployed=rounded).round == told.round
        for other in (None, rounded + 0.01):
            with pytest.raises(AlreadyTold, match="was already reported as deployed with"):
                study.tell(asked, samples, deployed=other)
        assert stored(path) == before
    with pf.Study.open(path, "eu", METHODS[name]()) as again:
        assert run(again, 5).verify().told >= 4


def test_what_was_asked_for_may_be_said_to_be_deployed(study):
    deployment = study.ask()
    study.tell(deployment, answer(deployment), deployed=deployment.decisions.tolist())
    study.tell(deployment, answer(deployment))
    assert [event.actual for event in study.events() if event.kind == "tell"] == [None]


def test_infeasible_decisions_that_were_deployed_are_taken_and_said_so(study, path):
    asked = study.ask()
    told = study.tell(asked, answer(asked), deployed=[5.5, 3.0])  # the cap is 4, and 5 the highest price
    assert told.violated == {"cap": 4.5, "the decision set": 0.5}
    warnings = study.status().warnings
    assert "constraint cap was violated by 1 of 1 deployments, most by deployment 1: 4.5" in warnings
    assert "1 of 1 deployments were outside of what is allowed at all, farthest deployment 1: by 0.5" in warnings
    assert study.status().slack_history.tolist() == [[-4.5]]
    study.verify()
    with pf.Study.open(path, "eu", study.method) as other:
        assert other.tell(asked, answer(asked), deployed=[5.5, 3.0]).violated == told.violated


@pytest.mark.parametrize(
    ("deployed", "message"),
    [
        ([1.0], r"`deployed` must have shape \(1, 2\), but got \(1,\)"),
        ([[1.0, 1.0], [1.0, 1.0]], r"`deployed` must have shape \(1, 2\), but got \(2, 2\)"),
        ([1.0, np.nan], "`deployed` must be finite, but got nan"),
        (["a", "b"], "`deployed` must be numbers"),
    ],
)
def test_what_cannot_have_been_deployed_is_refused(study, path, deployed, message):
    asked = study.ask()
    with pytest.raises(ValueError, match=message):
        study.tell(asked, answer(asked), deployed=deployed)
    assert kinds(path) == ["create", "ask"]
