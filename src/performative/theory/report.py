"""The constants, assumptions, steps and bounds of one problem."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import NamedTuple

from performative import theory
from performative.environments import LocationFamily
from performative.experiments.settings import EXPERIMENTS
from performative.loading import remedy
from performative.problem import Problem
from performative.problems.instance import WARMUP
from performative.theory.theorem import TheoremSettings
from performative.validation import MOST_SEED, positive, whole


class Report(NamedTuple):
    """The constants of a problem, and its settings and bounds at a horizon T, or None and the `reason`.

    `slater` says whether the bounds rest on Slater's condition; where that fails, they are those that hold without it.
    """

    constants: theory.Constants
    rounds: int
    settings: TheoremSettings | None
    bounds: theory.Bounds | None
    reason: str
    slater: bool = True


def load(name: str, sensitivity: float = 1.0, seed: int = 0, realization: int = 0) -> tuple[Problem, LocationFamily]:
    """The problem and environment of an instance of an experiment, or those that a Python file defines."""
    if name in EXPERIMENTS:
        instance = EXPERIMENTS[name].instance(
            whole("seed", seed, 0, MOST_SEED),
            whole("realization", realization, 0),
            positive("sensitivity", sensitivity),
            WARMUP,
        )
        return instance.truth, instance.environment
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"`problem` must be one of {sorted(EXPERIMENTS)} or a Python file that exists, but got {name!r}"
        )
    try:
        namespace = runpy.run_path(str(path))
    except (ImportError, SyntaxError, NameError) as error:
        raise ValueError(f"running {path} failed: {type(error).__name__}: {error}{remedy(error)}") from error
    for variable, kind in (("problem", Problem), ("environment", LocationFamily)):
        if not isinstance(namespace.get(variable), kind):
            raise ValueError(
                f"{path} must define `{variable}`, a performative.{kind.__name__}, but it is {namespace.get(variable)!r}"
            )
    return namespace["problem"], namespace["environment"]


def report(problem: Problem, environment: LocationFamily, rounds: int, exploration: float = 1.0) -> Report:
    """The constants of a problem, and Theorem 1 at T = `rounds`, or at the least T it applies to if that is larger."""
    whole("rounds", rounds, 1)
    constants = theory.constants(problem, environment, exploration)
    if not math.isfinite(constants.horizon):
        return Report(constants, rounds, None, None, "L_g is infinite")
    rounds = max(rounds, int(constants.horizon))
    settings = constants.settings(rounds)
    slater = constants.assumption("Slater").holds is not False
    try:
        bounds = constants.theorem(rounds, slater=slater)
    except ValueError as error:
        return Report(constants, rounds, settings, None, str(error))
    if not math.isfinite(bounds.regret):
        return Report(constants, rounds, settings, None, "one of the constants it needs is infinite")
    return Report(constants, rounds, settings, bounds, "", slater)
