"""The settings of the paper's experiments: which methods run, with which options, on which random instances."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from performative import steps
from performative.methods.paper import apda, oracle, pd_ps
from performative.methods.protocol import Method
from performative.methods.safe_apda import safe_apda
from performative.problems import portfolio, regression
from performative.problems.instance import WARMUP, Instance
from performative.simulation.worlds import Cast

EXPERIMENTS: dict[str, ModuleType] = {regression.NAME: regression, portfolio.NAME: portfolio}
METHODS = ("apda", "pd-ps", "oracle", "apda-recycle", "safe-apda")


def cast_of(instances: dict[float, list[Instance]], methods: Sequence[str] = METHODS) -> Cast:
    """Everything that takes part in an experiment: a variant for each sensitivity, an instance for each realization."""
    names = [name for name in METHODS if name in methods]
    casts = {
        sensitivity: [_methods(instance, names) for instance in realizations]
        for sensitivity, realizations in instances.items()
    }

    def of_each(part: str) -> dict[float, list[Any]]:
        return {value: [getattr(instance, part) for instance in rows] for value, rows in instances.items()}

    return Cast(
        methods={name: {value: [row[name] for row in rows] for value, rows in casts.items()} for name in names},
        environment=of_each("environment"),
        problem=of_each("truth"),
        optimum=of_each("optimum"),
    )


def _methods(instance: Instance, names: Sequence[str]) -> dict[str, Method]:
    """The methods, with the settings of the paper's appendix, on one instance."""
    common: dict[str, Any] = {
        **steps.experiment(),
        "warmup": WARMUP,
        "start": instance.start,
        "shift": instance.shift,
    }
    learning = {**common, "effect": instance.prior}
    informed = {**common, "effect": instance.environment.effect}
    del informed["estimation_step"]
    makers: dict[str, Any] = {
        "apda": lambda: apda(instance.problem, **learning),
        "pd-ps": lambda: pd_ps(instance.problem, **learning),
        "oracle": lambda: oracle(instance.problem, **informed),
        "apda-recycle": lambda: apda(instance.problem, **learning, recycle=True),
        # Its promise is for constraints that are known, so it is told the true ones.
        "safe-apda": lambda: safe_apda(
            instance.truth, start=instance.start, shift=instance.shift, effect=instance.prior
        ),
    }
    return {name: makers[name]() for name in names}
