"""The constants of a concrete problem, and which of the paper's assumptions it meets."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from performative import steps
from performative.environments import LocationFamily
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64, precise
from performative.problem import Problem
from performative.solvers.derivatives import constraint_curvature
from performative.theory import bounds
from performative.theory.looking import STARTS, Look, least_eigenvalue, norm
from performative.truth.optimum import performative_optimum
from performative.validation import positive, whole

NEEDED = (
    "2: Θ bounded",
    "3: g convex",
    "3: g Lipschitz and bounded",
    "4: gradient variance",
    "5: injected noise",
    "location family",
    "PR strongly convex",
    "Lemma 4: quadratic in Z",
)
"""The assumptions of the corrected theorem; of Assumption 1 it needs only what the last two say."""


class Assumption(NamedTuple):
    """One assumption: its name, what it says, whether it holds (None: could not be decided), and the evidence."""

    name: str
    statement: str
    holds: bool | None
    evidence: str


class Bounds(NamedTuple):
    """Theorem 1 at a horizon T: bounds on the sums over t = 1..T, and the settings they hold for."""

    rounds: int
    regret: float
    violation: float
    gradient_error: float
    parameter_error: float
    step: float
    control: float
    warmup: int


@dataclasses.dataclass(frozen=True)
class Constants:
    """The constants of a problem in an environment; infinity where there is none. `evidence` says how each was found.

    Of the loss: `decision_convexity` γ_θ, `data_convexity` γ_Z, `smoothness` β (across θ and Z), `data_smoothness` β_Z,
    `loss_lipschitz` L_θ and `data_lipschitz` L_Z. Of the risk: `convexity` γ and `lipschitz` L. Of the set and the
    constraints: `radius` R, `constraint_lipschitz` L_g, `constraint_bound` C. Of the data: `variance` σ² at one decision
    and `uniform_variance` at all of them together, `trace` tr Σ. Of the effect: `sensitivity` σ_max(A), `least_response`
    σ_min(A), `effect_error` ‖A‖²_F. `gain` is (K₁, K₂) of Lemma 4 and `gain_spread` what n base samples add to K₁, over √n.
    `multipliers` is ‖λ*‖.
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
    dimension: int
    exploration: float
    noise: bounds.Noise
    moved_covariance: Floats
    moved_fourth: float
    evidence: dict[str, str]
    assumptions: tuple[Assumption, ...]

    @property
    def horizon(self) -> float:
        """The least T from which Theorem 1 speaks, 32 L_g²."""
        return steps.least_horizon(self.constraint_lipschitz) if math.isfinite(self.constraint_lipschitz) else math.inf

    @property
    def needed(self) -> list[Assumption]:
        """The assumptions that the corrected theorem rests on."""
        return [self.assumption(name) for name in NEEDED]

    def assumption(self, name: str) -> Assumption:
        """The assumption of that name."""
        return next(item for item in self.assumptions if item.name == name)

    def settings(self, rounds: int) -> dict[str, Any]:
        """The theorem's step, control, estimation_step and warmup for T = `rounds`, as options of `apda`."""
        options = steps.theorem(rounds, self.constraint_lipschitz, self.dimension)
        options["estimation_step"] = steps.excited(self.dimension, self.exploration)
        return options | {"warmup": math.ceil(math.sqrt(rounds)), "exploration": self.exploration}

    def theorem(
        self, rounds: int, warmup: int | None = None, control: float | None = None, as_printed: bool = False
    ) -> Bounds:
        """Theorem 1 for T = `rounds`, η = 1/√T and the theorem's ζ_t; n is √T and δ the least allowed if left out.

        Assumes what `needed` lists, Â₀ = 0 and probes N(0, exploration²I), and refuses where one of them fails; where one is
        open it is for the reader to know that it holds. As printed: all lemmas as printed.
        """
        rounds = whole("rounds", rounds, 1)
        failing = [item for item in self.needed if item.holds is False]
        if failing and not as_printed:
            raise ValueError(
                f"the assumptions of Theorem 1 must hold, but {failing[0].name} fails: {failing[0].evidence}"
            )
        if not math.isfinite(self.horizon) or rounds < self.horizon:
            raise ValueError(f"`rounds >= 32 L_g²` must hold for Theorem 1, but got {rounds=} < {self.horizon}")
        n = math.ceil(math.sqrt(rounds)) if warmup is None else whole("warmup", warmup, 1)
        delta = self.settings(rounds)["control"] if control is None else control
        moved = float(np.trace(self.moved_covariance))
        noise = (
            bounds.noise_constants("gaussian", self.dimension, self.exploration, as_printed=True)
            if as_printed
            else self.noise
        )
        parameters = bounds.parameter_error(
            rounds, self.effect_error, noise, self.trace if as_printed else moved, as_printed
        )
        fourth = 0.0
        if self.gain[1] > 0 and not as_printed:
            fourth = bounds.parameter_error_fourth(
                rounds, self.dimension, self.effect_error, self.moved_covariance, self.moved_fourth, self.exploration
            )
        gradient = bounds.gradient_error(
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
            "multipliers": self.multipliers,
            "as_printed": as_printed,
        }
        regret, violation = bounds.regret(rounds, gradient, **common), bounds.violation(rounds, gradient, **common)
        return Bounds(rounds, regret, violation, gradient, parameters, 1 / math.sqrt(rounds), delta, n)


@in_float64
def constants(problem: Problem, environment: LocationFamily, exploration: float = 1.0, seed: int = 0) -> Constants:
    """All constants of a problem in a location family, and the report on the paper's assumptions.

    Exact where the derivatives concerned are constant on Θ; otherwise the largest (or smallest) value that ascent from
    decisions all over Θ finds, which the evidence says. Averages over a Gaussian base are exact where the average is of a
    function affine in the data, and over a fixed number of draws with `seed` otherwise.
    """
    if not isinstance(environment, LocationFamily):
        raise TypeError(
            f"`environment` must be a performative.LocationFamily, the setting of the theorem, but got {environment!r}"
        )
    optimum = performative_optimum(problem, environment)
    problem = problem.of_dimension(len(optimum.decision))
    look = Look(problem, environment, seed)
    d = look.dimension
    evidence: dict[str, str] = {"radius": f"sup ‖θ‖ over {type(problem.decisions).__name__}"}
    found: dict[str, float] = {"radius": float(problem.decisions.radius)}

    def take(name: str, value: tuple[float, str]) -> None:
        found[name], evidence[name] = value

    take("decision_convexity", look.least("the Hessian of ℓ in θ", least_eigenvalue, look.decision_hessian))
    take("data_convexity", look.least("the Hessian of ℓ in Z", least_eigenvalue, look.data_hessian))
    take("smoothness", look.most("‖∂²ℓ/∂θ∂Z‖", norm, look.mixed_hessian))
    take("data_smoothness", look.most("‖∂²ℓ/∂Z²‖", norm, look.data_hessian))
    take("loss_lipschitz", look.largest_slope("‖∇_θℓ‖", jax.grad(problem.loss)))
    take("data_lipschitz", look.largest_slope("‖∇_Zℓ‖", jax.grad(problem.loss, 1)))
    take("convexity", look.risk_convexity())
    take("lipschitz", look.supremum("‖∇PR‖", lambda theta: jnp.linalg.norm(jax.grad(look.risk)(theta))))
    jacobian = jax.jacobian(problem.g)
    take("constraint_lipschitz", look.supremum("‖∇g‖", lambda theta: norm(jacobian(theta)), jacobian))
    take("constraint_bound", look.supremum("‖g‖", lambda theta: jnp.linalg.norm(problem.g(theta)), problem.g))
    take("variance", look.variance())
    take("uniform_variance", look.uniform_variance())
    covariance, moved, moved_fourth = look.moments
    shift = None if environment.dimension is not None else environment.shift
    for name in ("trace", "sensitivity", "least_response", "effect_error"):
        evidence[name] = "exact" if name != "trace" or not look.exactly_drawn else "exact, of the samples"
    found["trace"] = float(np.trace(covariance))
    found["sensitivity"] = bounds.sensitivity(environment.effect, shift, d)
    found["least_response"] = bounds.least_response(environment.effect, shift, d)
    found["effect_error"] = float(np.sum(np.asarray(environment.effect) ** 2))
    first, spread, second, how = look.gain()
    evidence["gain"] = how
    found["multipliers"] = float(np.linalg.norm(optimum.multipliers))
    evidence["multipliers"] = f"the optimum, KKT residual {float(optimum.kkt_residual):.1e}"
    noise = bounds.noise_constants("gaussian", d, positive("exploration", exploration))
    report = _report(problem, found, evidence, look)
    return Constants(
        **found,
        gain=(first, second),
        gain_spread=spread,
        dimension=d,
        exploration=float(exploration),
        noise=noise,
        moved_covariance=moved,
        moved_fourth=moved_fourth,
        evidence=evidence,
        assumptions=report,
    )


def _report(problem: Problem, c: dict[str, float], how: dict[str, str], look: Look) -> tuple[Assumption, ...]:
    def above(name: str) -> bool | None:
        """Whether a constant is positive: for certain only where it is exact, or was found not to be."""
        if not math.isfinite(c[name]):
            return None
        return (True if how[name].startswith("exact") else None) if c[name] > 1e-9 else False

    bent = [look.grows_with_data(derivative) for derivative in (look.mixed_hessian, look.data_hessian)]
    steep = look.grows_with_data(jax.grad(problem.loss, 1))
    data_convexity = c["data_convexity"]
    strong = c["decision_convexity"] - (c["smoothness"] ** 2 / data_convexity if data_convexity > 1e-9 else math.inf)
    lemma_2 = bounds.risk_convexity(
        c["decision_convexity"], max(data_convexity, 0.0), c["smoothness"], c["sensitivity"], c["least_response"]
    )
    convex_constraints = _convex_constraints(problem, look)
    report = [
        Assumption("1: smooth", "ℓ has bounded second derivatives",
                   False if True in bent else None if None in bent or not look.analytic else True,
                   ("they grow with Z, and the base is unbounded; found " if True in bent else "")
                   + f"β = {c['smoothness']:.4g} ({how['smoothness']}), β_Z = {c['data_smoothness']:.4g}"),
        Assumption("1: convex in θ", "γ_θ > 0", above("decision_convexity"),
                   f"γ_θ = {c['decision_convexity']:.4g} ({how['decision_convexity']})"),
        Assumption("1: convex in Z", "γ_Z > 0", above("data_convexity"),
                   f"γ_Z = {c['data_convexity']:.4g} ({how['data_convexity']})"),
        Assumption("1: Lipschitz in Z", "‖∇_Zℓ‖ ≤ L_Z for all data", None if steep is None else not steep,
                   ("it grows with Z, and the base is unbounded; " if steep else "")
                   + f"L_Z = {c['data_lipschitz']:.4g} ({how['data_lipschitz']})"),
        Assumption("1: γ_θ − β²/γ_Z > 0", "with β across θ and Z",
                   False if not strong > 0 else None if None in (above("decision_convexity"), above("data_convexity")) else True,
                   f"γ_θ − β²/γ_Z = {strong:.4g}" if math.isfinite(strong) else "γ_Z = 0"),
        Assumption("2: Θ bounded", "closed, convex, ‖θ‖ ≤ R", look.bounded, f"R = {c['radius']:.4g}"),
        Assumption("3: g convex", "each g_i is convex on Θ", *convex_constraints),
        Assumption("3: g Lipschitz and bounded", "‖∇g‖ ≤ L_g, ‖g‖ ≤ C",
                   math.isfinite(c["constraint_lipschitz"]) and math.isfinite(c["constraint_bound"]),
                   f"L_g = {c['constraint_lipschitz']:.4g} ({how['constraint_lipschitz']}), C = {c['constraint_bound']:.4g}"),
        Assumption("4: gradient variance", "n E sup ‖∇P̂R − ∇PR‖² ≤ σ²",
                   True if math.isfinite(c["uniform_variance"]) else False if math.isinf(c["variance"]) else None,
                   f"σ² = {c['variance']:.4g} ({how['variance']}); uniformly {c['uniform_variance']:.4g} "
                   f"({how['uniform_variance']})"),
        Assumption("5: injected noise", "excites every direction", True, "Gaussian probes: κ in closed form"),
        Assumption("location family", "Z = Z₀ + Aθ, Â as large as A", look.isometric,
                   f"σ_max(A) = {c['sensitivity']:.4g}" + ("" if look.isometric else "; the effect is not as large as the matrix "
                   "it stands for, of which Lemma D1 speaks: scale the shift")),
        Assumption("PR strongly convex", "γ > 0, what the proof needs of Assumption 1",
                   above("convexity"),
                   f"γ = {c['convexity']:.4g} ({how['convexity']}); Lemma 2 gives at least {lemma_2:.4g}"),
        Assumption("Lemma 4: quadratic in Z", "∇P̂R is quadratic in the effect", True if look.quadratic_in_data else None,
                   how["gain"]),
    ]  # fmt: skip
    return tuple(report)


def _convex_constraints(problem: Problem, look: Look) -> tuple[bool | None, str]:
    import cvxpy as cp

    variable = cp.Variable(look.dimension)
    bent = [item for item in problem.constraints if item.declare(variable) is None]
    if not bent:
        return True, "each has a convex form" if problem.constraints else "there are none"
    count = len(problem.constraint_names)
    worst = math.inf
    with precise():
        for theta in look.points:
            for index in range(count):
                weights = np.eye(count)[index]
                worst = min(worst, float(np.linalg.eigvalsh(constraint_curvature(problem, theta, weights))[0]))
    if worst < -1e-9:
        return False, f"a Hessian of g has the eigenvalue {worst:.4g}"
    return None, f"not declared convex; no Hessian at {STARTS} decisions has an eigenvalue below {worst:.2g}"
