"""Theorem 1: the settings and bounds that follow from the constants of a problem."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from performative import steps
from performative.numerics.arrays import Floats
from performative.theory import estimation, framework, gradient
from performative.theory.assumptions import NEEDED, Assumption
from performative.theory.evidence import is_proved
from performative.theory.noise import Noise, noise_constants
from performative.validation import whole


class Bounds(NamedTuple):
    """Theorem 1 at a horizon T: bounds on the sums over t = 1..T, and the settings they hold for.

    `doubts` lists what keeps them from being proved: constants that were only estimated and assumptions that are undecided.

    >>> import performative as pf
    >>> pf.theory.Bounds._fields[:5]
    ('rounds', 'regret', 'violation', 'gradient_error', 'parameter_error')
    """

    rounds: int
    regret: float
    violation: float
    gradient_error: float
    parameter_error: float
    step: float
    control: float
    warmup: int
    doubts: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether the bounds are proved, up to rounding; otherwise they are estimated."""
        return not self.doubts


USED = (
    "convexity",
    "lipschitz",
    "radius",
    "constraint_lipschitz",
    "constraint_bound",
    "uniform_variance",
    "trace",
    "effect_error",
    "gain",
    "multipliers",
)
"""The constants that the bounds are made of."""


class TheoremSettings(steps.Settings):
    """The theorem's settings, as options of `apda`."""

    warmup: int
    exploration: float


@dataclasses.dataclass(frozen=True)
class Constants:
    """The constants of a problem in an environment; infinity where there is none. `evidence` says how each was computed.

    Of the loss: `decision_convexity` γ_θ, `data_convexity` γ_Z, `smoothness` β (across θ and Z), `data_smoothness` β_Z,
    `loss_lipschitz` L_θ and `data_lipschitz` L_Z. Of the risk: `convexity` γ and `lipschitz` L. Of the set and the
    constraints: `radius` R, `constraint_lipschitz` L_g, `constraint_bound` C. Of the data: `variance` σ² at one decision
    and `uniform_variance` at all of them together, `trace` tr Σ; `moved_covariance` and `moved_fourth` are Σ and the fourth
    moment along the directions that the effect can move. Of the effect: `sensitivity` σ_max(A), `least_response` σ_min(A),
    `effect_error` ‖A‖²_F. `gain` is (K₁, K₂) of Lemma 4 and `gain_spread` what n base samples add to K₁, over √n.
    `multipliers` is ‖λ*‖, `duality_gap` how far the computed λ* may be from optimal. `evidence` begins with *proved*,
    *estimated* or *unknown*.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(
    ...     lambda theta, z: jnp.sum((theta - z) ** 2), pf.Ball(1.0), [pf.constraints.Linear([1.0, 1.0], 0.5, name="cap")]
    ... )
    >>> environment = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [0.1, 0.1]), effect=[[0.2, 0.0], [0.0, 0.2]])
    >>> constants: pf.theory.Constants = pf.theory.constants(problem, environment)
    >>> constants.radius, constants.evidence["radius"]
    (1.0, 'proved: sup ‖θ‖ over Ball')
    >>> [item.name for item in constants.needed if item.holds is False], constants.settings(10_000)["step"]
    ([], 0.01)
    """

    decision_convexity: float
    data_convexity: float
    smoothness: float
    data_smoothness: float
    loss_lipschitz: float
    data_lipschitz: float
    convexity: float
    lipschitz: float
    radius: float
    constraint_lipschitz: float
    constraint_bound: float
    variance: float
    uniform_variance: float
    trace: float
    sensitivity: float
    least_response: float
    effect_error: float
    gain: tuple[float, float]
    gain_spread: float
    multipliers: float
    duality_gap: float
    dimension: int
    exploration: float
    noise: Noise
    moved_covariance: Floats
    moved_fourth: float
    evidence: dict[str, str]
    assumptions: tuple[Assumption, ...]

    @property
    def horizon(self) -> float:
        """The least T from which Theorem 1 applies, 32 L_g²."""
        return steps.least_horizon(self.constraint_lipschitz) if math.isfinite(self.constraint_lipschitz) else math.inf

    @property
    def needed(self) -> list[Assumption]:
        """The assumptions that the corrected theorem rests on."""
        return [self.assumption(name) for name in NEEDED]

    def assumption(self, name: str) -> Assumption:
        """The assumption of that name."""
        return next(item for item in self.assumptions if item.name == name)

    def settings(self, rounds: int) -> TheoremSettings:
        """The theorem's step, control, estimation_step and warmup for T = `rounds`, as options of `apda`."""
        options = steps.theorem(rounds, self.constraint_lipschitz, self.dimension)
        return {
            "step": options["step"],
            "control": options["control"],
            "estimation_step": steps.excited(self.dimension, self.exploration),
            "warmup": math.ceil(math.sqrt(rounds)),
            "exploration": self.exploration,
        }

    def theorem(
        self,
        rounds: int,
        warmup: int | None = None,
        control: float | None = None,
        as_printed: bool = False,
        slater: bool = True,
    ) -> Bounds:
        """Theorem 1 for T = `rounds`, η = 1/√T and the theorem's ζ_t; if left out, n is √T and δ the least allowed.

        Assumes what `needed` lists, Â₀ = 0 and probes N(0, exploration²I). Refuses a problem where one of these fails; where
        one is undecided, you must know that it holds. With `slater=False` Slater's condition is not needed, and the bound on the
        violation is O(T^(3/4)) instead of O(√T). As printed: all lemmas as printed.
        """
        rounds = whole("rounds", rounds, 1)
        needed = [item for item in self.needed if slater or item.name != "Slater"]
        failing = [item for item in needed if item.holds is False]
        if failing and not as_printed:
            remedy = "; `slater=False` gives the bounds that hold without it" if failing[0].name == "Slater" else ""
            raise ValueError(
                f"the assumptions of Theorem 1 must hold, but {failing[0].name} fails: {failing[0].evidence}{remedy}"
            )
        if not math.isfinite(self.horizon) or rounds < self.horizon:
            raise ValueError(f"`rounds >= 32 L_g²` must hold for Theorem 1, but got {rounds=} < {self.horizon}")
        n = math.ceil(math.sqrt(rounds)) if warmup is None else whole("warmup", warmup, 1)
        delta = self.settings(rounds)["control"] if control is None else control
        moved = float(np.trace(self.moved_covariance))
        noise = (
            noise_constants("gaussian", self.dimension, self.exploration, as_printed=True) if as_printed else self.noise
        )
        parameters = estimation.parameter_error(
            rounds, self.effect_error, noise, self.trace if as_printed else moved, as_printed
        )
        fourth = 0.0
        if self.gain[1] > 0 and not as_printed:
            fourth = estimation.parameter_error_fourth(
                rounds, self.dimension, self.effect_error, self.moved_covariance, self.moved_fourth, self.exploration
            )
        gradients = gradient.gradient_error(
            rounds,
            n,
            variance=self.variance if as_printed else self.uniform_variance,
            smoothness=self.smoothness,
            data_smoothness=self.data_smoothness,
            data_lipschitz=self.data_lipschitz,
            sensitivity=self.sensitivity,
            radius=self.radius,
            parameter_error=parameters,
            parameter_error_fourth=fourth,
            gain=(self.gain[0] + self.gain_spread / math.sqrt(n), self.gain[1]),
            as_printed=as_printed,
        )
        common: dict[str, Any] = {
            "convexity": self.convexity,
            "radius": self.radius,
            "constraint_bound": self.constraint_bound,
            "constraint_lipschitz": self.constraint_lipschitz,
            "lipschitz": self.lipschitz,
            "control": delta,
        }
        regret = framework.regret(rounds, gradients, **common, as_printed=as_printed)
        if slater or as_printed:
            violation = framework.violation(
                rounds,
                gradients,
                **common,
                multipliers=self.multipliers,
                duality_gap=self.duality_gap,
                as_printed=as_printed,
            )
        else:
            violation = framework.violation_without_slater(rounds, gradients, **common)
        used = [name for name in USED if slater or name != "multipliers"]
        doubts = [f"{name} is estimated" for name in used if not is_proved(self.evidence[name])]
        doubts += [f"{item.name} is undecided" for item in needed if item.holds is None]
        doubts += ["the lemmas are as printed"] if as_printed else []
        eta = 1 / math.sqrt(rounds)
        return Bounds(rounds, regret, violation, gradients, parameters, eta, delta, n, tuple(doubts))
