"""Conformance: the rules that every method keeps, as checks that a method of one's own can be put through.

    checks.require(method, environment)  # in a test of yours

Everything is computed in float64, as in a simulation. The environment must keep the rules too: samples that are a function of
the key, the decision and n.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from performative.checks.rules import CHECKS, Broken
from performative.checks.trial import Trial
from performative.errors import NotConforming
from performative.numerics.precision import in_float64
from performative.validation import MOST_SEED, whole


class Check(NamedTuple):
    """One rule: whether the method keeps it, and what shows that, in one line."""

    name: str
    passed: bool
    evidence: str


@in_float64
def conformance(method: Any, environment: Any, *, rounds: int = 25, seed: int = 0) -> list[Check]:
    """Put a method through every check, over so many rounds against an environment.

    A method that misbehaves does not raise: an exception inside a check is a failed check, with the exception as evidence.
    What cannot be traced, or grows from round to round, cannot be simulated, so that the checks which compare with a simulation
    fail as well.
    """
    if not callable(getattr(environment, "sample", None)):
        raise TypeError(f"`environment` must have sample(key, theta, n), but got {environment!r}")
    trial = Trial(method, environment, whole("rounds", rounds, 2), whole("seed", seed, 0, MOST_SEED))
    return [_checked(name, check, trial) for name, check in CHECKS.items()]


def require(method: Any, environment: Any, *, rounds: int = 25, seed: int = 0) -> None:
    """Raise `NotConforming`, which lists every failed check with its evidence, unless a method passes all of them."""
    results = conformance(method, environment, rounds=rounds, seed=seed)
    failed = [check for check in results if not check.passed]
    if failed:
        raise NotConforming(method, failed, len(results))


def _checked(name: str, check: Callable[[Trial], str], trial: Trial) -> Check:
    try:
        return Check(name, True, check(trial))
    except Broken as broken:
        return Check(name, False, str(broken))
    except Exception as error:
        return Check(name, False, textwrap.shorten(f"{type(error).__name__}: {error}", 400, placeholder=" …"))
