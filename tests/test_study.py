"""Live studies: nothing lost, nothing twice, the same bits whoever holds the file, and clear errors that change nothing."""

import contextlib
import dataclasses
import os
import resource
import shutil
import sqlite3
import tempfile
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from benchmarks import soak

import performative as pf
from performative import losses
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key
from performative.simulation.engine import round_keys
from performative.study import (
    AlreadyTold,
    NotReproduced,
    OtherMethod,
    StudyBusy,
    StudyDamaged,
    StudyError,
    belief,
    cautions,
    file,
    replay,
    store,
)
from performative.study.records import packed, unpacked

EFFECT = np.array([[-1.5, 0.3], [0.2, -1.0]])


def revenue(prices, demand):
    return -jnp.sum(prices * demand)


def market_problem(bound=4.0, loss=revenue, upper=5.0):
    return pf.Problem(loss, pf.Box([0.0, 0.0], [upper, 5.0]), [pf.constraints.Linear([1.0, 1.0], bound, name="cap")])


PROBLEM = market_problem()
MARKET = pf.LocationFamily(pf.Gaussian([4.0, 5.0], 0.25 * np.eye(2)), EFFECT)
METHODS = {
    "safe": lambda: pf.safe_apda(PROBLEM),
    "apda": lambda: pf.apda(PROBLEM, warmup=20),
    "recycle": lambda: pf.apda(PROBLEM, warmup=20, recycle=True),
    "rgd": lambda: pf.repeated_gradient(PROBLEM),
}


EACH = [pytest.param(name, marks=[pytest.mark.slow] if name == "recycle" else []) for name in METHODS]


def answer(deployment, n=None):
    """What the world says, a function of the deployment's round alone."""
    random = np.random.default_rng(deployment.round)
    noise = random.normal(size=(len(deployment.decisions), n or deployment.samples, 2))
    return np.array([4.0, 5.0]) + (deployment.decisions @ EFFECT.T)[:, None] + 0.5 * noise


def run(study, rounds):
    while True:
        deployment = study.ask()
        if deployment.round >= rounds:
            return study
        study.tell(deployment, answer(deployment))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "prices.db"


@pytest.fixture
def study(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        yield study


def stored(path):
    """Everything the file holds, by a connection of its own."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        rows = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("events", "heads", "snapshots")]
    connection.close()
    return rows


def kinds(path):
    return [unpacked(record[64:])[0]["kind"] for _, record in stored(path)[0]]


# Identities.


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


@pytest.mark.parametrize("name", EACH)
def test_a_study_agrees_with_the_simulation_on_the_same_data(path, name):
    method = METHODS[name]()
    with pf.Study.create(path, "eu", method, seed=3) as study:
        lane = jax.random.fold_in(new_key(3), 0)
        while (deployment := study.ask()).round <= 40:
            with precise():
                keys = round_keys(lane, deployment.round, 2)
                samples = [
                    MARKET.sample(keys[1 + i], jnp.asarray(theta), deployment.samples)
                    for i, theta in enumerate(deployment.decisions)
                ]
            told = study.tell(deployment, np.stack(samples))
        runs = pf.simulate({"m": method}, MARKET, rounds=40, realizations=1, seed=3).isel(
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Place:
    round: object
    decision: object
    multipliers: object
    seen: object


class Looker:
    """A method of a user's that looks at its numbers, so that it cannot be compiled, and keeps a list that grows."""

    def __init__(self):
        self.problem = PROBLEM

    def init(self, key):
        return Place(jnp.asarray(1), jnp.array([0.1, 0.1]), jnp.zeros(1), ())

    def ask(self, state, key):
        return state.decision[None]

    def wanted(self, state):
        return 1

    def tell(self, state, decisions, samples):
        moved = state.decision + 0.01 * samples[0, 0]
        decision = moved if float(moved.sum()) < 2.0 else state.decision
        return Place(state.round + 1, decision, state.multipliers, (*state.seen, samples[0, 0, 0])[-3:])


def test_a_method_of_ones_own_that_cannot_be_compiled(path):
    with pf.Study.create(path, "eu", Looker()) as study:
        run(study, 6)
        state = study.state
    with pf.Study.open(path, "eu", Looker()) as again:
        assert np.array_equal(again.state.decision, state.decision)
        assert len(again.state.seen) == 3
        assert run(again, 9).verify().told == 8


# Asking and telling.


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
    with pytest.raises(AlreadyTold, match="told already, with other samples"):
        study.tell(first, answer(first) + 1.0)
    with pytest.raises(AlreadyTold, match="must be open to be cancelled, but was told"):
        study.cancel(first, "late")
    assert stored(path) == before


def test_cancelling_draws_another_decision_for_the_same_round(path):
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM)) as study:
        run(study, 4)
        first = study.ask()
        study.cancel(first, "shop closed")
        study.cancel(first, "shop closed")
        study.note("open again on Monday")
        with pytest.raises(AlreadyTold, match="cancelled: shop closed"):
            study.tell(first, answer(first))
        second = study.ask()
        assert second.id != first.id
        assert second.round == first.round
        assert not np.array_equal(second.decisions, first.decisions)
    with pf.Study.open(path, "eu", pf.safe_apda(PROBLEM)) as study:
        assert study.ask().id == second.id
        study.tell(second, answer(second))
        assert study.verify().told == 5
    assert kinds(path)[-5:] == ["ask", "cancel", "note", "ask", "tell"]


def test_data_frames(path):
    with pf.Study.create(path, "eu", pf.apda(PROBLEM, warmup=4)) as study:
        first = study.ask()
        study.tell(first, pd.DataFrame(answer(first)[0], columns=["a", "b"]))
        second = study.ask()
        study.tell(second, [pd.DataFrame(part) for part in answer(second)])
        assert study.verify().told == 2
        third = study.ask()
        with pytest.raises(ValueError, match="numeric"):
            study.tell(third, [pd.DataFrame({"a": ["x"], "b": [1.0]})] * 2)


def test_columns_are_known_by_the_names_of_the_first_tell(path):
    with pf.Study.create(path, "eu", pf.apda(PROBLEM, warmup=4)) as study:
        first = study.ask()
        study.tell(first, pd.DataFrame(answer(first)[0], columns=["a", "b"]))
    with pf.Study.open(path, "eu", pf.apda(PROBLEM, warmup=4)) as study:
        study.tell(first, pd.DataFrame(answer(first)[0], columns=["a", "b"])[["b", "a"]])  # the same again
        second = study.ask()
        before = stored(path)
        for names in (["a", "c"], ["a", "b", "c"]):
            with pytest.raises(ValueError, match=r"must have the columns \['a', 'b'\], as in the first tell"):
                study.tell(second, [pd.DataFrame(0.0, [0], names)] * 2)
        assert stored(path) == before
        study.tell(second, [pd.DataFrame(part, columns=["a", "b"])[["b", "a"]] for part in answer(second)])
        *_, (_, _, arrays) = study.events()
        np.testing.assert_array_equal(arrays["samples"], answer(second))


def test_columns_of_the_first_frame_are_kept_where_arrays_were_told_before(path):
    method = pf.repeated_gradient(PROBLEM)
    with pf.Study.create(path, "eu", method) as study:
        study.tell(study.ask(), answer(study.ask()))
        study.tell(study.ask(), pd.DataFrame({"a": [1.0], "b": [2.0]}))
        study.tell(study.ask(), answer(study.ask()))
    with pf.Study.open(path, "eu", method) as study:
        study.tell(study.ask(), pd.DataFrame({"b": [2.0], "a": [1.0]}))
        *_, (_, _, arrays) = study.events()
        np.testing.assert_array_equal(arrays["samples"], [[[1.0, 2.0]]])


def test_a_first_tell_that_must_fail_is_refused_on_creation(path):
    with pytest.raises(ValueError, match="`loss` must be smooth for safe_apda"):
        pf.Study.create(path, "eu", pf.safe_apda(market_problem(loss=losses.Pinball(0.8))))
    with pytest.raises(ValueError, match="must hold 3 numbers each, like the effect's rows"):
        pf.Study.create(path, "eu", pf.apda(market_problem(loss=losses.Revenue()), effect=np.zeros((3, 2))))
    assert not path.exists()
    anything = market_problem(loss=lambda theta, z: -jnp.sum(theta) * jnp.sum(z))
    pf.Study.create(path, "eu", pf.apda(anything, warmup=20, effect=np.zeros((70, 2)))).close()


def test_large_records_are_read_one_by_one(path, monkeypatch):
    monkeypatch.setattr(store, "_BYTES", 2_000)
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        for t in range(6):
            deployment = study.ask()
            study.tell(deployment, answer(deployment._replace(samples=1 + 100 * (t % 2))))
        longest, read = [], study._store._read

        def counted(first, last):
            events = read(first, last)
            longest.append(sum(len(event.body) for event in events) if len(events) > 1 else 0)
            return events

        monkeypatch.setattr(study._store, "_read", counted)
        assert study.verify().told == 6
        assert max(longest) < 6_000
    with pf.Study.open(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        assert study.count == 13


BAD = {
    "nan": (lambda d: np.full((1, 1, 2), np.nan), "must be finite, but got nan"),
    "inf": (lambda d: np.full((1, 1, 2), np.inf), "must be finite, but got inf"),
    "two axes": (lambda d: np.zeros((1, 2)), r"must have shape \(1, n, k\), but got \(1, 2\)"),
    "two decisions": (lambda d: np.zeros((2, 1, 2)), r"must have shape \(1, n, k\)"),
    "too wide": (lambda d: np.zeros((1, 1, 3)), "must take a decision"),
    "strings": (lambda d: [[["a", "b"]]], "must be numbers"),
    "texts of numbers": (lambda d: [[["1", "2"]]], "must be numbers"),
    "dates": (lambda d: np.zeros((1, 1, 2), "datetime64[D]"), "must be numbers"),
    "complex": (lambda d: np.zeros((1, 1, 2), complex), "must be numbers"),
    "masked": (lambda d: np.ma.masked_array(np.zeros((1, 1, 2)), [[[True, False]]]), "masked"),
    "none": (lambda d: None, "must be numbers"),
    "empty": (lambda d: np.zeros((1, 0, 2)), "must have shape"),
    "nothing": (lambda d: [], "must have shape"),
    "ragged": (lambda d: [[[1.0, 2.0], [1.0]]], "must be numbers"),
    "a gigabyte": (lambda d: np.broadcast_to(0.0, (1, 2**26, 2)), "must hold at most 33554432 numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_samples_are_refused_and_nothing_changes(study, path, name):
    deployment = study.ask()
    before = stored(path)
    make, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        study.tell(deployment, make(deployment))
    assert stored(path) == before
    study.tell(deployment, answer(deployment))
    assert study.verify().told == 1


def test_samples_that_would_ruin_the_state_are_refused(path):
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM)) as study:
        run(study, 3)
        before = stored(path)
        with pytest.raises(ValueError, match="must lead to a finite state, but these to"):
            study.tell(study.ask(), np.full((1, 1, 2), 1e160))
        assert stored(path) == before


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


def test_notes_do_not_hide_what_is_open(study):
    deployment = study.ask()
    for word in ("one", "two"):
        study.note(word)
    assert study.ask().id == deployment.id
    study.tell(deployment, answer(deployment))
    study.note("three")
    with pf.Study.open(study._store.path, "eu", study.method) as other:
        assert other.ask().round == deployment.round + 1


def test_a_wrong_deployment_is_refused(study, path):
    before = stored(path)
    for wrong in (1, 0, -1, 10**30):
        with pytest.raises(ValueError, match="must be one that was asked for"):
            study.tell(wrong, np.zeros((1, 1, 2)))
    with pytest.raises(TypeError, match="what `ask` returned or its id"):
        study.tell("1", np.zeros((1, 1, 2)))
    assert stored(path) == before
    deployment = study.ask()
    other = deployment._replace(decisions=deployment.decisions + 1.0)
    with pytest.raises(ValueError, match="must be of this study"):
        study.tell(other, answer(deployment))
    study.note("an event, but no deployment")
    with pytest.raises(ValueError, match="event 2 is a note"):
        study.tell(2, answer(deployment))
    with pytest.raises(ValueError, match="`reason`"):
        study.cancel(deployment, "")
    with pytest.raises(ValueError, match="`text`"):
        study.note("")
    assert kinds(path) == ["create", "ask", "note"]


def test_samples_as_wide_as_before(study):
    problem = pf.Problem(lambda t, z: jnp.sum(t**2) + jnp.sum(z), pf.Box([0.0], [1.0]))
    with pf.Study.create(study._store.path, "other", pf.repeated_gradient(problem)) as other:
        other.tell(other.ask(), np.ones((1, 1, 3)))
        with pytest.raises(ValueError, match="must hold 3 numbers each, as in earlier rounds"):
            other.tell(other.ask(), np.ones((1, 1, 2)))


# What is opened.


def other_loss(prices, demand):
    return -jnp.sum(prices * demand) + 1e-6 * prices[0]


def same_revenue(p, q):
    total = 0.0
    for place in range(2):
        total = total - q[place] * p[place]
    return total


DIFFERENT = {
    "bound": (lambda: pf.apda(market_problem(bound=3.0), warmup=20), "problem.constraints[0].bound: stored [4.0] given [3.0]"),
    "set": (lambda: pf.apda(market_problem(upper=4.0), warmup=20), "problem.decisions.upper: stored [5.0, 5.0] given [4.0, 5.0]"),
    "loss": (lambda: pf.apda(market_problem(loss=other_loss), warmup=20), "loss(probes of 2 numbers)[0, 0]: stored"),
    "step": (lambda: pf.apda(PROBLEM, warmup=20, step=0.1), "method.step: stored 0.005 given 0.1"),
    "step of the round": (lambda: pf.apda(PROBLEM, warmup=20, step=lambda t: 0.1 / t), "method.step: stored 0.005 given nothing"),
    "warmup": (lambda: pf.apda(PROBLEM, warmup=21), "method.estimator.warmup: stored 20 given 21"),
    "start": (lambda: pf.apda(PROBLEM, warmup=20, start=[0.1, 0.0]), "method.start: stored None given [0.1, 0.0]"),
    "kind": (lambda: pf.pd_ps(PROBLEM, warmup=20), "method.estimator.anticipate: stored True given False"),
    "safe": (lambda: pf.safe_apda(PROBLEM), "method: stored 'PrimalDual' given 'SafePrimalDual'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("identity") / "prices.db"
    with (
        pf.Study.create(path, "fresh", pf.apda(PROBLEM, warmup=20)),
        pf.Study.create(path, "told", pf.apda(PROBLEM, warmup=20)) as told,
    ):
        run(told, 2)
    return path


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("which", ["fresh", "told"])
def test_another_method_is_refused_with_the_differences(opened, name, which):
    make, line = DIFFERENT[name]
    before = opened.read_bytes()
    with pytest.raises(OtherMethod) as raised:
        pf.Study.open(opened, which, make())
    assert line in str(raised.value)
    assert any(line in entry for entry in raised.value.differences)
    assert opened.read_bytes() == before


def test_code_may_be_written_anew(opened):
    method = pf.apda(market_problem(loss=same_revenue), warmup=20)
    with pf.Study.open(opened, "told", method) as study:
        assert study.state.round == 2


def test_a_loss_that_only_the_data_show_is_compared_once_they_were_told(path):
    def make(weight):
        loss = lambda t, z: jnp.sum(t**2) + weight * z[:80].reshape(8, 10).sum()  # noqa: E731
        return pf.repeated_gradient(pf.Problem(loss, pf.Box([0.0], [1.0])))

    with pf.Study.create(path, "wide", make(1.0)) as study:
        study.tell(study.ask(), np.ones((1, 1, 80)))
    with pytest.raises(OtherMethod, match="loss"):
        pf.Study.open(path, "wide", make(2.0))
    pf.Study.open(path, "wide", make(1.0)).close()


def test_names(study, path):
    with pytest.raises(StudyError, match="has a study 'eu' already"):
        pf.Study.create(path, "eu", study.method)
    with pytest.raises(StudyError, match="has no study 'us', but 'eu'"):
        pf.Study.open(path, "us", study.method)
    with pytest.raises(ValueError, match="`name`"):
        pf.Study.create(path, "", study.method)
    with pytest.raises(ValueError, match="`seed`"):
        pf.Study.create(path, "us", study.method, seed=-1)
    with pytest.raises(StudyError, match="must exist, but does not"):
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
        with pytest.raises(StudyError, match="opened to be read"):
            reader.note("no")


# Damage.


def test_verify_finds_what_was_computed_otherwise(study):
    run(study, 4)
    state = study._store.state
    body = packed({"kind": "note", "at": 0.0, "text": "forged"}, {})
    study._store.append(body, state[:-1] + bytes([state[-1] ^ 1]))
    study._catch_up()
    with pytest.raises(NotReproduced, match="the numbers of the state of event 8 must be what the replay gives"):
        study.verify()


def test_verify_names_the_versions_where_the_numbers_come_out_otherwise(study, monkeypatch):
    run(study, 2)
    ask = study._calls.ask
    monkeypatch.setattr(study._calls, "ask", lambda *given: tuple(part * (1 + 1e-9) for part in ask(*given)))
    monkeypatch.setattr(replay, "__version__", "9.9")
    with pytest.raises(NotReproduced, match=r"by up to \S+; the study was created with .* this is performative 9.9"):
        study.verify()


def test_every_changed_bit_of_a_record_or_snapshot_is_found(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        run(study, 30)
        method = study.method
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    (events, heads, snapshots), seen = stored(path), 0
    for blob in [record for _, record in events[:: len(events) // 8]] + [heads[0][2], snapshots[0][1]]:
        place = whole.find(blob)
        if place < 0:  # in pieces, on several pages
            continue
        seen += 1
        damaged = bytearray(whole)
        damaged[place + int(random.integers(len(blob)))] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(StudyDamaged, match=r"is damaged|holds"):
            pf.Study.open(path, "eu", method)
        assert path.read_bytes() == damaged
    assert seen > 6


def test_random_damage_is_an_error_or_changes_nothing(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        run(study, 10)
        method = study.method
    whole, good = path.read_bytes(), stored(path)
    random = np.random.default_rng(1)
    errors = 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[int(random.integers(len(whole)))] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        try:
            pf.Study.open(path, "eu", method).close()
        except StudyError:
            errors += 1
            assert path.read_bytes() == damaged
        else:
            assert stored(path) == good
        for extra in path.parent.glob("*-*"):
            extra.unlink()
    assert errors > 10


@pytest.mark.parametrize("place", [0, 8, 16, 25, 32 + 8, 32 + 4120 * 9 + 8, 32 + 4120 * 9 + 1000, 32 + 4120 * 20 + 3])
def test_a_log_that_is_damaged_in_the_middle(path, tmp_path, place):
    """As a killed process leaves it. SQLite alone would drop what lies behind the damage without a word."""
    copy, log = tmp_path / "copy.db", tmp_path / "copy.db-wal"
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        run(study, 10)
        whole = Path(f"{path}-wal").read_bytes()
        shutil.copy(path, copy)
        method, count = study.method, study.verify().events
    log.write_bytes(whole)
    with pf.Study.open(copy, "eu", method, readonly=True) as same:
        assert same.verify().events == count
    damaged = bytearray(whole)
    damaged[place] ^= 4
    log.write_bytes(damaged)
    kept = copy.read_bytes()
    for call, name in ((pf.Study.open, "eu"), (pf.Study.create, "us")):
        with pytest.raises(StudyDamaged, match=r"copy\.db-wal is damaged"):
            call(copy, name, method)
    assert (copy.read_bytes(), log.read_bytes()) == (kept, bytes(damaged))


def test_a_log_that_was_cut_off_while_it_was_written(path, tmp_path):
    """What a crash leaves of an event that was never acknowledged is no damage."""
    copy = tmp_path / "copy.db"
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        run(study, 5)
        whole = Path(f"{path}-wal").read_bytes()
        shutil.copy(path, copy)
        method, count = study.method, study.verify().events
    Path(f"{copy}-wal").write_bytes(whole[:-100])
    with pf.Study.open(copy, "eu", method) as cut:
        assert cut.verify().events == count - 1
        run(cut, 6)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_a_truncated_file(path, share):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        run(study, 30)
        method = study.method
    whole = path.read_bytes()
    cut = whole[: int(share * len(whole))]
    path.write_bytes(cut)
    with pytest.raises(StudyError, match=r"damaged|could not be read|is empty|not a database"):
        pf.Study.open(path, "eu", method)
    assert path.read_bytes() == cut


def test_a_file_that_is_not_a_study_and_one_of_a_newer_version(path):
    method = pf.repeated_gradient(PROBLEM)
    path.write_text("prices: 1, 2, 3\n" * 100)
    content = path.read_bytes()
    for call in (pf.Study.open, pf.Study.create):
        with pytest.raises(StudyError, match="must be a file of studies"):
            call(path, "eu", method)
    assert path.read_bytes() == content
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE prices (x)")
    connection.close()
    content = path.read_bytes()
    for call in (pf.Study.open, pf.Study.create):
        with pytest.raises(StudyError, match="another kind of SQLite file"):
            call(path, "eu", method)
    assert path.read_bytes() == content
    path.unlink()
    pf.Study.create(path, "eu", method).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    content = path.read_bytes()
    for call in (pf.Study.open, pf.Study.create):
        with pytest.raises(StudyError, match="must be of format 1 at most, but is of 2"):
            call(path, "us", method)
    assert path.read_bytes() == content


def test_events_are_only_added(study, path):
    run(study, 3)
    study.close()
    connection = sqlite3.connect(path)
    for statement in ("DELETE FROM events", "UPDATE events SET record = x'00'"):
        with pytest.raises(sqlite3.IntegrityError, match="only added"):
            connection.execute(statement)
    connection.close()


def test_a_directory_that_vanishes(tmp_path):
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "prices.db"
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        deployment = study.ask()
        shutil.rmtree(tmp_path / "here")
        with pytest.raises(StudyError, match="moved, deleted or replaced"):
            study.tell(deployment, answer(deployment))
        assert not (tmp_path / "here").exists()


def test_a_full_disk(path):
    """The file may not grow: what cannot be written is refused, and the study goes on once there is room."""
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        run(study, 3)
        deployment = study.ask()
        before = stored(path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        large = answer(deployment, 20_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(StudyError, match="could not be read or written, and nothing is changed"):
                study.tell(deployment, large)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert stored(path) == before
        study.tell(deployment, large)
        assert study.verify().told == 3


@contextlib.contextmanager
def nobody():
    """As a user who owns nothing: the rights of a file mean nothing to root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("directory", [0o555, 0o777])
def test_a_read_only_file(directory):
    home = Path(tempfile.mkdtemp(dir="/tmp"))  # that everyone may enter
    path = home / "prices.db"
    try:
        with pf.Study.create(path, "eu", soak.simple()) as study:
            soak_run(study, 3)
            method = study.method
            study.history()  # imports, while that is allowed
        content = path.read_bytes()
        path.chmod(0o444)
        home.chmod(directory)
        with nobody(), pf.Study.open(path, "eu", method) as study:
            assert study.state.round == 3
            with pytest.raises(StudyError, match="could not be read or written, and nothing is changed"):
                study.note("no")
            assert study.history().sizes["deployment"] == 2
        assert path.read_bytes() == content
    finally:
        home.chmod(0o755)
        shutil.rmtree(home)


def soak_run(study, rounds):
    while (deployment := study.ask()).round < rounds:
        study.tell(deployment, soak.answer(deployment))


# Several processes, and killed ones.


def test_killed_at_random_moments_nothing_is_lost_or_twice_and_the_bits_are_the_same(tmp_path):
    found = soak.killed(tmp_path / "prices.db", kills=12, rounds=20)
    assert found["told"] >= found["acknowledged"] > 15


@pytest.mark.slow
def test_killed_three_hundred_times(tmp_path):
    found = soak.killed(tmp_path / "prices.db", kills=300, rounds=100)
    assert found["told"] >= found["acknowledged"] > 300


@pytest.mark.slow
def test_eight_processes_hammer_a_study_for_a_minute(tmp_path):
    assert soak.hammered(tmp_path / "prices.db", processes=8, seconds=60.0)["refused"] > 100


def test_processes_that_hammer_one_study_leave_a_valid_log(tmp_path):
    found = soak.hammered(tmp_path / "prices.db", processes=8, seconds=3.0)
    assert found["told"] > 20
    assert found["refused"] > 0


def test_of_two_that_tell_at_once_one_wins(path):
    method = pf.repeated_gradient(PROBLEM)
    with pf.Study.create(path, "eu", method) as one, pf.Study.open(path, "eu", method) as other:
        for _ in range(5):
            mine, yours = one.ask(), other.ask()
            assert mine.id == yours.id
            outcomes = []

            def tell(study, deployment, samples, outcomes=outcomes):
                try:
                    outcomes.append(study.tell(deployment, samples).round)
                except AlreadyTold as error:
                    outcomes.append(error)

            threads = [
                threading.Thread(target=tell, args=(one, mine, answer(mine))),
                threading.Thread(target=tell, args=(other, yours, answer(yours) + 1.0)),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(isinstance(outcome, AlreadyTold) for outcome in outcomes) == [False, True]
        assert one.verify().told == 5


def test_a_file_that_another_process_holds_is_busy(study, path, monkeypatch):
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.1)
    deployment = study.ask()
    before = stored(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pf.Study.open(path, "eu", study.method) as other:  # a reader is not held up
        assert other.ask().id == deployment.id
        with pytest.raises(StudyBusy, match="being written by another process"):
            other.tell(deployment, answer(deployment))
    holder.execute("ROLLBACK")
    holder.close()
    assert stored(path) == before
    study.tell(deployment, answer(deployment))


# Status, history, figure.


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    path = tmp_path_factory.mktemp("status") / "prices.db"
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM)) as study:
        run(study, 400)
        yield study


def test_status_tells_where_the_study_stands(learnt):
    status = learnt.status()
    assert status.round == 400
    assert status.told == 400
    best, stable = pf.performative_optimum(PROBLEM, MARKET), pf.stable_point(PROBLEM, MARKET)
    assert np.all(np.abs(status.effect - EFFECT) < 4 * status.effect_error)
    assert np.all(status.effect_error < 0.3)
    for found, truth in ((status.optimum, best), (status.stable, stable)):
        np.testing.assert_allclose(found.decision, truth.decision, atol=0.15)
        assert found.low < truth.risk < found.high
        assert found.high - found.low < 0.5
    assert status.now.risk >= status.optimum.risk - 1e-6
    assert status.stable.risk > status.optimum.risk
    assert status.exploration_cost > 0
    assert status.slack["cap"] == pytest.approx(4.0 - status.decision.sum())
    assert status.slack_history.shape == (400, 1)
    assert status.slack_history.min() >= 0
    assert "deploy [" in status.next_action
    assert [w for w in status.warnings if "cap is active" in w]
    assert not [w for w in status.warnings if "location family" in w or "drift" in w or "step" in w]
    assert "risk optimum" in str(status)


def test_nothing_is_sure_before_more_decisions_were_deployed_than_they_have_numbers(path):
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM, samples=20)) as study:
        run(study, 2)
        status = study.status()
        assert status.effect_error is None
        assert status.now.low is None
        run(study, 5)
        assert study.status().effect_error is not None


def test_history_is_what_was_told(learnt):
    past = learnt.history()
    assert past.sizes == {"deployment": 400, "dimension": 2, "constraint": 1, "probe": 1, "number": 2}
    deployment = learnt.deployment(int(past["deployment"][7]))
    np.testing.assert_array_equal(past["deployed"][7], deployment.decisions)
    samples = answer(deployment)
    np.testing.assert_array_equal(past["data"][7], samples.mean(axis=1))
    np.testing.assert_allclose(past["loss"][7], -np.mean(samples[0] @ deployment.decisions[0]))
    assert (past["told"] >= past["asked"]).all()
    assert len(learnt.plot().axes) == 4


def test_status_and_history_before_anything_was_told(study):
    assert study.history().sizes["deployment"] == 0
    status = study.status()
    assert status.told == 0
    assert status.deployed is None
    assert status.next_action == "ask for the next decisions"
    assert len(study.plot().axes) == 4


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
    assert "straight line" in alarms(x, 2.0 * x**2 + noise)[0]
    assert "spread" in alarms(x, x @ EFFECT.T + noise * (x[:, :1] - 0.9) * 5)[0]
    counts = np.round(1.0 + 50.0 * (x[:, 0] - 1.0))  # more samples at higher prices are no wider spread
    assert alarms(x, x @ EFFECT.T + noise / np.sqrt(counts)[:, None], counts) == []
    forth = np.array([[(-1.0) ** t, 0.0] for t in range(30)])
    assert "back and forth" in next(cautions.step(object(), None, forth))
    assert list(cautions.step(object(), None, random.normal(size=(30, 2)).cumsum(axis=0))) == []


def test_a_false_alarm_is_rare():
    found = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        x = random.uniform(0.0, 1.0, size=(100, 3)) * np.linspace(1.0, 0.2, 100)[:, None]
        found += len(alarms(x, x @ random.normal(size=(3, 2)) + random.normal(size=(100, 2))))
    assert found <= 2  # 600 tests at 1e-4


def test_status_of_a_method_without_standard_errors_is_least_squares_of_the_log(path):
    """And of a loss with kinks, which Safe APDA refuses."""
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


def test_a_step_that_is_too_large_is_named(path):
    with pf.Study.create(path, "eu", pf.apda(PROBLEM, warmup=20, step=5.0)) as study:
        run(study, 5)
        warnings = study.status().warnings
    assert any("the step 5 is too large: above" in warning for warning in warnings)
    assert any("cap was broken by" in warning for warning in warnings)


def test_a_step_is_judged_by_what_the_method_descends(path):
    """On data as they are the risk −θz with z = 4 − θ bends by 1, with the reaction foreseen by 2."""
    problem = pf.Problem(lambda theta, z: -jnp.sum(theta * z), pf.Box([0.0], [6.0]))
    found = []
    for method in (pf.repeated_gradient(problem, step=1.5), pf.apda(problem, step=1.5, warmup=20, start=[1.0])):
        with pf.Study.create(path, type(method.estimator).__name__, method) as study:
            for t in range(6):
                deployment = study.ask()
                noise = 0.01 * np.random.default_rng(t).normal(size=(len(deployment.decisions), deployment.samples, 1))
                study.tell(deployment, 4.0 - deployment.decisions[:, None] + noise)
            found.append([warning for warning in study.status().warnings if "too large: above" in warning])
    assert [len(warnings) for warnings in found] == [0, 1]


def test_what_is_forgotten_counts_as_little_in_the_status():
    recent = belief.Recent()
    for number in range(4):
        recent.add(number, np.full((2, 1), float(number)), np.zeros((2, 1, 3)))
    _, _, weights = recent.rows(4.0)  # 2, 4, then 4 of 4 + 2 are kept twice
    np.testing.assert_allclose(weights, np.repeat([2 / 3, 2 / 3, 2 / 3, 1.0], 2))
    np.testing.assert_array_equal(recent.rows(None)[2], np.ones(8))
    assert recent.different() == 4


def test_an_interruption_after_the_commit_is_no_second_chance(study):
    """What was written counts: the same samples are answered alike, others are refused."""
    deployment = study.ask()
    append = study._store.append

    def interrupted(*given):
        append(*given)
        raise KeyboardInterrupt

    study._store.append = interrupted
    with pytest.raises(KeyboardInterrupt):
        study.tell(deployment, answer(deployment))
    study._store.append = append
    with pytest.raises(AlreadyTold, match="told already, with other samples"):
        study.tell(deployment, answer(deployment) + 1.0)
    assert study.tell(deployment, answer(deployment)).round == deployment.round + 1
    assert study.ask().id != deployment.id
    assert study.verify().told == 1


def test_readers_and_a_writer_share_a_study_between_threads(study):
    failures = []

    def read():
        try:
            for _ in range(5):
                numbers = [number for number, _, _ in study.events()]
                assert numbers == list(range(len(numbers)))
                study.history()
        except Exception as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    run(study, 40)
    for reader in readers:
        reader.join()
    assert failures == []
    assert study.verify().told == 39


def test_a_closed_study_says_so_and_writes_nothing(study, path):
    study.close()
    with pytest.raises(StudyError, match="was closed"):
        study.ask()
    assert kinds(path) == ["create"]


def test_another_loss_is_refused_wherever_decisions_and_data_are(path):
    """Far from 0, where a set is a corner to points around 0; and bounds of very different size."""
    problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Box([10.0, 10.0], [20.0, 20.0]))
    other = pf.Problem(
        lambda theta, z: jnp.sum((theta - z) ** 2) + 100.0 * jnp.sum((theta - 10.0) ** 2), problem.decisions
    )
    late = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2 + jnp.maximum(z - 90.0, 0.0)), problem.decisions)
    with pf.Study.create(path, "eu", pf.repeated_gradient(problem)) as study:
        study.tell(study.ask(), np.full((1, 1, 2), 100.0))
    for wrong in (other, late):
        with pytest.raises(OtherMethod, match="loss"):
            pf.Study.open(path, "eu", pf.repeated_gradient(wrong))
    wide = [pf.Problem(revenue, pf.Box([0.0, 0.0], [1e9, upper])) for upper in (1.0, 1.9)]
    pf.Study.create(path, "wide", pf.repeated_gradient(wide[0])).close()
    with pytest.raises(OtherMethod, match="upper"):
        pf.Study.open(path, "wide", pf.repeated_gradient(wide[1]))
