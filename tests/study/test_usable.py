"""A loss that cannot be computed, and a start that breaks a constraint, are refused before a file exists."""

import re
from pathlib import Path

import jax.numpy as jnp
import pytest
from described import SPEC

import performative as pf
from performative.errors import SpecError
from performative.study.spec import describe

LOSSES = """
import jax.numpy as jnp
def one_argument(theta):
    return jnp.sum(theta)
def three_arguments(theta, z, week):
    return jnp.sum(theta * z)
def nan(theta, z):
    return jnp.sum(theta * z) * jnp.nan
def not_a_scalar(theta, z):
    return theta * z
def never_defined(theta, z):
    return jnp.sum(jnp.log(-theta**2 - 1.0) * z)
def steep(theta, z):
    return jnp.sum(jnp.sqrt(theta - theta) * z)
def positive(theta, z):
    return -jnp.sum(theta * jnp.log(z))
def of_large_data(theta, z):
    return -jnp.sum(theta * jnp.sqrt(z - 5.0))
def of_shares(theta, z):
    return jnp.sum(theta * jnp.log(z * (1.0 - z)))
def of_a_hundred(theta, z):
    return jnp.sum(theta) * jnp.sum(z.reshape(10, 10))
"""


@pytest.fixture
def described(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("losses_to_use.py").write_text(LOSSES)
    return lambda name: SPEC.replace('type = "revenue"', f'type = "function"\nfunction = "losses_to_use:{name}"')


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("one_argument", r"loss: `loss` must take a decision .* takes 1 positional argument but 2 were given"),
        ("three_arguments", r"loss: `loss` must take a decision .* missing 1 required positional argument: 'week'"),
        ("nan", r"loss: `loss` must be finite for some samples, but is nan at \["),
        ("not_a_scalar", r"loss: `loss` must return a scalar"),
        ("never_defined", r"loss: `loss` must be finite for some samples, but is nan at "),
        ("steep", r"loss: `loss` must have a finite gradient for some samples"),
    ],
)
def test_a_loss_that_cannot_be_computed_is_a_line(described, name, line):
    with pytest.raises(SpecError, match=line) as refused:
        describe(described(name))
    assert len(refused.value.lines) == 1


@pytest.mark.parametrize("name", ["positive", "of_large_data", "of_shares", "of_a_hundred"])
def test_a_loss_of_some_data_alone_is_accepted(described, name):
    assert describe(described(name)).method.problem.d == 2


def test_a_method_without_derivatives_needs_no_gradient(described):
    assert describe(described("steep").replace("safe_apda", "one_point")).method.problem.d == 2


def test_a_loss_without_numbers_makes_no_file(path):
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z) * jnp.nan, pf.Box([0.0], [1.0]))
    with pytest.raises(ValueError, match="`loss` must be finite for some samples"):
        pf.Study.create(path, "eu", pf.repeated_gradient(problem))
    assert not path.exists()


@pytest.mark.parametrize("method", ["safe_apda", "repeated_gradient"])
def test_a_start_that_breaks_a_constraint_is_refused_with_how_much(method):
    text = SPEC.replace("safe_apda", method)
    line = "method.start: must satisfy every constraint, but got [3.0, 2.5], which breaks cap by 1.5"
    with pytest.raises(SpecError, match=re.escape(line)):
        describe(text + "start = [3.0, 2.5]\n")
    assert describe(text + "start = [1.5, 2.5]\n").method.start.tolist() == [1.5, 2.5]  # at the cap
