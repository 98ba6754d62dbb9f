"""Who did it."""

import getpass

import pytest

from performative.study.people import person


def test_without_a_name_it_is_the_user_of_the_system(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert person(None) == "ada"
    assert person("Grace") == "Grace"


def test_a_system_that_does_not_know_its_user_is_told(monkeypatch):
    def nobody():
        raise KeyError("uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(ValueError, match="`by` must say who it is"):
        person(None)
