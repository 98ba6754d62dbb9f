"""What is shown while others wait."""

from __future__ import annotations

import jax.numpy as jnp
from rich.progress import Progress

from performative.numerics.kept import SWITCH
from performative.numerics.programs import Program
from performative.simulation.progress import progress_bar


def _twice(x):
    return 2.0 * x


def test_the_bar_says_what_is_compiled_and_when_that_is_done(monkeypatch):
    monkeypatch.setenv(SWITCH, "off")
    said = []
    monkeypatch.setattr(Progress, "update", lambda bar, task, description, refresh: said.append(description))
    program = Program(_twice)
    with progress_bar(True, 2, "rounds") as advance:
        for _ in range(2):
            program(jnp.ones(3))
            advance(1)
    assert said == ["rounds (compiling twice)", "rounds"]
    Program(_twice)(jnp.ones(4))  # afterward nobody is told
    assert len(said) == 2
