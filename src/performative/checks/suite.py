"""The suite of checks that show whether a method keeps every rule.

Everything is computed in float64, as in a simulation. The environment must keep its own rule: samples are a function of the
key, the decision and n.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from performative.checks.rules import CHECKS, Broken
from performative.checks.trial import Trial
from performative.environments.protocol import Environment
from performative.errors import NotConforming
from performative.methods.protocol import Method
from performative.numerics.precision import in_float64
from performative.validation import MOST_SEED, whole


class Check(NamedTuple):
    """One rule: whether the method keeps it, and the evidence, in one line.

    >>> import performative as pf
    >>> pf.checks.Check("purity", passed=True, evidence="8 rounds: states and arrays unchanged bit for bit").passed
    True
    """

    name: str
    passed: bool
    evidence: str


@in_float64
def conformance(method: Any, environment: Environment, *, rounds: int = 25, seed: int = 0) -> list[Check]:
    """Put a method through every check, for `rounds` rounds in an environment.

    A method that misbehaves raises nothing: an exception inside a check is a failed check, with the exception as evidence.
    A method that cannot be traced, or whose state grows from round to round, cannot be simulated, so it also fails the checks
    that compare with a simulation.

    >>> import performative as pf
    >>> environment = pf.LocationFamily(pf.Gaussian([1.0], [0.1]), effect=[[0.5]])
    >>> results = pf.checks.conformance("not a method", environment)
    >>> results[0].name, results[0].passed, results[0].evidence
    ('protocol', False, '`init` must be a function of the method, but is not')
    """
    if not callable(getattr(environment, "sample", None)):
        raise TypeError(f"`environment` must have sample(key, theta, n), but got {environment!r}")
    trial = Trial(method, environment, whole("rounds", rounds, 2), whole("seed", seed, 0, MOST_SEED))
    return [_checked(name, check, trial) for name, check in CHECKS.items()]


def require(method: Method, environment: Environment, *, rounds: int = 25, seed: int = 0) -> None:
    """Raise `NotConforming`, which lists every failed check with its evidence, unless a method passes all of them.

    >>> import performative as pf
    >>> environment = pf.LocationFamily(pf.Gaussian([1.0], [0.1]), effect=[[0.5]])
    >>> pf.checks.require("not a method", environment)
    Traceback (most recent call last):
    performative.errors.NotConforming: a method must pass all 8 checks of performative.checks, but str failed 8:
    - protocol: `init` must be a function of the method, but is not
    ...
    """
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
