"""`verify` computes everything again and names what differs."""

import dataclasses

import pytest
from market import run

from performative.study import NotReproduced, replay
from performative.study.events import Noted


def test_verify_finds_what_was_computed_differently(study):
    run(study, 4)
    state = study._session.log.store.state
    study._session.log.append(Noted(8, 0.0, "forged"), state[:-1] + bytes([state[-1] ^ 1]))
    study._session.catch_up()
    with pytest.raises(NotReproduced, match="the numbers of the state of event 8 differ from the replay"):
        study.verify()


def test_verify_names_the_versions_where_the_numbers_come_out_differently(study, monkeypatch):
    run(study, 2)
    calls = study._session.worker.calls
    ask = calls.ask

    def differently(*given):
        planned = ask(*given)
        return dataclasses.replace(planned, decisions=planned.decisions + 1e-9)

    monkeypatch.setattr(calls, "ask", differently)
    monkeypatch.setattr(replay, "__version__", "9.9")
    with pytest.raises(NotReproduced, match=r"by up to \S+; the study was created with .* this is performative 9.9"):
        study.verify()
