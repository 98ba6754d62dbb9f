"""Several processes and threads at one study, and killed ones: nothing is lost and nothing is there twice."""

import threading

import pytest
from benchmarks import soak
from market import answer, run

import performative as pf
from performative.study import AlreadyTold


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost_or_twice_and_the_bits_are_the_same(tmp_path):
    counts = soak.killed(tmp_path / "prices.db", kills=8, rounds=20)
    assert counts["acknowledged"]["told"] > 15
    assert min(counts["acknowledged"].values()) > 0


@pytest.mark.slow
def test_killed_three_hundred_times(tmp_path):
    """`-s` prints during what, and how much was acknowledged."""
    counts = soak.killed(tmp_path / "prices.db", kills=300, rounds=100)
    print(counts)
    assert min(counts["during"].values()) > 0
    assert counts["acknowledged"]["told"] > 300


@pytest.mark.slow
def test_eight_processes_hammer_a_study_for_a_minute(tmp_path):
    assert soak.hammered(tmp_path / "prices.db", processes=8, seconds=60.0)["refused"] > 100


def test_processes_that_hammer_one_study_leave_a_valid_log(tmp_path):
    counts = soak.hammered(tmp_path / "prices.db", processes=4, seconds=1.5)
    assert counts["told"] > 20
    assert counts["refused"] > 0


def test_of_two_that_tell_at_once_one_wins(study, path):
    with study as one, pf.Study.open(path, "eu", study.method) as other:
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


def test_an_interruption_after_the_commit_is_no_second_chance(study):
    """What was written counts: the same samples are answered alike, others are refused."""
    deployment = study.ask()
    append = study._session.log.store.append

    def interrupted(*given):
        append(*given)
        raise KeyboardInterrupt

    study._session.log.store.append = interrupted
    with pytest.raises(KeyboardInterrupt):
        study.tell(deployment, answer(deployment))
    study._session.log.store.append = append
    with pytest.raises(AlreadyTold, match="already reported with other samples"):
        study.tell(deployment, answer(deployment) + 1.0)
    assert study.tell(deployment, answer(deployment)).round == deployment.round + 1
    assert study.ask().id != deployment.id
    assert study.verify().told == 1


def test_readers_and_a_writer_share_a_study_between_threads(study):
    failures = []

    def read():
        try:
            for _ in range(5):
                numbers = [event.number for event in study.events()]
                assert numbers == list(range(len(numbers)))
                study.history()
        except Exception as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    run(study, 20)
    for reader in readers:
        reader.join()
    assert failures == []
    assert study.verify().told == 19
