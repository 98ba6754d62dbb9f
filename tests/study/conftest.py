"""A new study of a quick method in its own file."""

import shutil

import pytest
from market import PROBLEM

import performative as pf


@pytest.fixture
def path(tmp_path):
    return tmp_path / "prices.db"


@pytest.fixture(scope="session")
def new_store(tmp_path_factory):
    """A file with one study, to be copied: creating one takes longer than opening it."""
    path = tmp_path_factory.mktemp("new") / "prices.db"
    pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)).close()
    return path


@pytest.fixture
def study(new_store, path):
    shutil.copy(new_store, path)
    with pf.Study.open(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        yield study
