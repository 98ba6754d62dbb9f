"""The constants of a concrete problem, and which of the paper's assumptions it meets."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative import polynomial, steps
from performative.convex import constraint_curvature
from performative.environments import Gaussian, LocationFamily
from performative.optimum import performative_optimum
from performative.precision import in_float64, precise
from performative.problem import Problem
from performative.randomness import new_key, standard_normal
from performative.risk import LocationRisk
from performative.theory import bounds
from performative.validation import Floats, positive, whole

DRAWS = 4_000
"""Draws from a Gaussian base, where an average over it has no closed form."""
STARTS, ASCENT = 32, 60
"""From how many decisions a supremum over Θ is looked for, and for how many steps."""
LARGE = 50_000
"""Numbers in the largest first derivative of the gradient by the effect that is written out."""


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
    look = _Look(problem, environment, seed)
    d = look.dimension
    evidence: dict[str, str] = {"radius": f"sup ‖θ‖ over {type(problem.decisions).__name__}"}
    found: dict[str, float] = {"radius": float(problem.decisions.radius)}

    def take(name: str, value: tuple[float, str]) -> None:
        found[name], evidence[name] = value

    take("decision_convexity", look.least("the Hessian of ℓ in θ", _least_eigenvalue, look.decision_hessian))
    take("data_convexity", look.least("the Hessian of ℓ in Z", _least_eigenvalue, look.data_hessian))
    take("smoothness", look.most("‖∂²ℓ/∂θ∂Z‖", _norm, look.mixed_hessian))
    take("data_smoothness", look.most("‖∂²ℓ/∂Z²‖", _norm, look.data_hessian))
    take("loss_lipschitz", look.largest_slope("‖∇_θℓ‖", jax.grad(problem.loss)))
    take("data_lipschitz", look.largest_slope("‖∇_Zℓ‖", jax.grad(problem.loss, 1)))
    take("convexity", look.risk_convexity())
    take("lipschitz", look.supremum("‖∇PR‖", lambda theta: jnp.linalg.norm(jax.grad(look.risk)(theta))))
    jacobian = jax.jacobian(problem.g)
    take("constraint_lipschitz", look.supremum("‖∇g‖", lambda theta: _norm(jacobian(theta)), jacobian))
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
    report = _report(problem, environment, found, evidence, look, optimum)
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


def _norm(matrix: Array) -> Array:
    return jnp.linalg.norm(matrix, 2) if matrix.size else jnp.zeros(())


def _least_eigenvalue(matrix: Array) -> Array:
    return jnp.linalg.eigvalsh(matrix)[0]


class _Look:
    """One problem in one environment, looked at from all over Θ."""

    def __init__(self, problem: Problem, environment: LocationFamily, seed: int) -> None:
        self.problem, self.environment = problem, environment
        self.dimension = int(problem.dimension)
        self.bounded = math.isfinite(problem.decisions.radius)
        base = environment.base
        self.draws = (
            base.from_normals(standard_normal(new_key(seed), base.normals(DRAWS)))
            if isinstance(base, Gaussian)
            else jnp.asarray(base.samples)
        )
        self.exactly_drawn = not isinstance(base, Gaussian)
        self.averaged = "over all samples" if self.exactly_drawn else f"over {DRAWS} draws"
        self.risk = LocationRisk.of(problem, environment, environment.coarse_enough(problem))
        self.points = problem.decisions.spread(self.dimension, STARTS)

    # What is looked at.

    def decision_hessian(self, theta: Array, z: Array) -> Array:
        return jax.hessian(self.problem.loss)(theta, z)

    def data_hessian(self, theta: Array, z: Array) -> Array:
        return jax.hessian(self.problem.loss, 1)(theta, z)

    def mixed_hessian(self, theta: Array, z: Array) -> Array:
        return jax.jacfwd(jax.grad(self.problem.loss), 1)(theta, z)

    def answer(self, z0: Array, theta: Array) -> Array:
        return z0 + self.environment.shift(jnp.asarray(self.environment.effect), theta)

    def reacting(self, theta: Array, z0: Array) -> Array:
        """ℓ(θ; z₀ + Aθ): the loss of a decision once its data have reacted."""
        return self.problem.loss(theta, self.answer(z0, theta))

    # How it is looked at.

    def constant(self, derivative: Callable[..., Any], *arguments: Array) -> bool:
        """Whether a derivative is the same everywhere, by its program: of degree 0 in all arguments together."""
        return polynomial.joint_degree(derivative, *arguments) == 0

    @functools.cached_property
    def analytic(self) -> bool:
        """Whether ℓ has no kinks, whose second derivatives a program would give as 0."""
        return polynomial.is_analytic(self.problem.loss, jnp.asarray(self.points[0]), self.draws[0])

    def supremum(
        self, what: str, value: Callable[[Array], Array], derivative: Callable[[Array], Array] | None = None
    ) -> tuple[float, str]:
        """sup of a function of θ over Θ."""
        theta = jnp.asarray(self.points[0])
        if derivative is not None and self.constant(derivative, theta):
            return float(value(theta)), f"exact: {what} is constant"
        if not self.bounded:
            return math.inf, f"{what} is not constant and Θ is unbounded"
        best, where = ascended(value, self.problem.decisions, self.points)
        return best, f"the largest {what} found by ascent from {STARTS} decisions, at ‖θ‖ = {np.linalg.norm(where):.4g}"

    def most(self, what: str, size: Callable[[Array], Array], matrix: Callable[..., Array]) -> tuple[float, str]:
        """sup of the size of a derivative of ℓ over θ ∈ Θ and the data it induces."""
        return self._extreme(what, f"the largest {what}", size, matrix, np.max)

    def least(self, what: str, size: Callable[[Array], Array], matrix: Callable[..., Array]) -> tuple[float, str]:
        """The smallest eigenvalue of a Hessian of ℓ over θ ∈ Θ and the data it induces."""
        return self._extreme(what, f"the smallest eigenvalue of {what}", size, matrix, np.min)

    def _extreme(
        self,
        what: str,
        found: str,
        size: Callable[[Array], Array],
        matrix: Callable[..., Array],
        extreme: Callable[[Floats], Any],
    ) -> tuple[float, str]:
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        if self.analytic and self.constant(matrix, theta, z):
            return float(size(matrix(theta, z))), f"exact: {what} is constant"
        values = self._everywhere(lambda theta, z: size(matrix(theta, z)))
        beside = "" if self.analytic else "beside the kinks of ℓ, "
        return float(extreme(values)), f"{beside}{found} at {STARTS} decisions, {self.averaged} each"

    def largest_slope(self, what: str, slope: Callable[[Array, Array], Array]) -> tuple[float, str]:
        """sup of ‖slope‖ over θ ∈ Θ and the data it induces."""
        if not self.bounded:
            return math.inf, f"{what} is not looked for on an unbounded Θ"
        if self.grows_with_data(slope):
            return math.inf, f"{what} grows with Z, and the base is unbounded"

        def largest(theta: Array) -> Array:
            return jnp.sqrt(
                jnp.max(jax.vmap(lambda z0: jnp.sum(slope(theta, self.answer(z0, theta)) ** 2))(self.draws))
            )

        value, _ = ascended(largest, self.problem.decisions, self.points)
        return value, f"the largest {what} found on Θ, {self.averaged}"

    def grows_with_data(self, derivative: Callable[[Array, Array], Array]) -> bool | None:
        """Whether a derivative of ℓ is unbounded in Z on an unbounded base; None if that cannot be read off its program."""
        if self.exactly_drawn:
            return False
        by_data = polynomial.degree(lambda z, theta: derivative(theta, z), self.draws[0], jnp.asarray(self.points[0]))
        return None if math.isinf(by_data) else by_data > 0

    def risk_convexity(self) -> tuple[float, str]:
        """γ: the smallest eigenvalue of ∇²PR on Θ."""
        center = jnp.asarray(self.points[0])
        if polynomial.degree(self.risk, center) <= 2:
            value = np.linalg.eigvalsh(np.asarray(jax.jit(jax.hessian(self.risk))(center)))[0]
            return float(value), "exact: PR is quadratic, the smallest eigenvalue of its Hessian"
        value, _ = ascended(
            lambda theta: -_least_eigenvalue(jax.hessian(self.risk)(theta)), self.problem.decisions, self.points
        )
        return -value, f"the smallest eigenvalue of ∇²PR found by descent from {STARTS} decisions"

    def variance(self) -> tuple[float, str]:
        """σ² of Assumption 4: sup over Θ of E‖∇_θ ℓ(θ; Z₀ + Aθ) − ∇PR(θ)‖²."""
        if self.affine():
            return self._affine_variance(), "exact: ∇ℓ(θ; Z₀ + Aθ) is affine in θ and Z₀ together"
        if not self.bounded:
            return math.inf, "Θ is unbounded"

        def spread(theta: Array) -> Array:
            gradients = jax.vmap(lambda z0: jax.grad(self.reacting)(theta, z0))(self.draws)
            return jnp.sum(jnp.var(gradients, axis=0))

        return ascended(spread, self.problem.decisions, self.points)[0], f"the largest found on Θ, {self.averaged}"

    def uniform_variance(self) -> tuple[float, str]:
        """n E sup_θ ‖∇P̂R(θ) − ∇PR(θ)‖², of n base samples."""
        if self.affine():
            return self._affine_variance(), "exact: the error of n base samples does not depend on θ"
        if not self.bounded:
            return math.inf, "Θ is unbounded"
        center = self.problem.decisions.project(jnp.zeros(self.dimension))
        if polynomial.degree(self.reacting, center, self.draws[0]) > 2:
            return math.inf, "none is known: ℓ(θ; Z₀ + Aθ) is not quadratic in θ"
        # ∇ℓ(θ; Z₀ + Aθ) = x + Yθ, and ‖mean(x) + mean(Y)(θ − c)‖ ≤ ‖mean(x)‖ + reach·‖mean(Y)‖_F.
        gradients = jax.jit(jax.vmap(lambda z0: jax.grad(self.reacting)(center, z0)))(self.draws)
        hessians = jax.jit(jax.vmap(lambda z0: jax.hessian(self.reacting)(center, z0)))(self.draws)
        at, along = float(jnp.sum(jnp.var(gradients, axis=0))), float(jnp.sum(jnp.var(hessians, axis=0)))
        reach = self.problem.decisions.radius + float(jnp.linalg.norm(center))
        value = (math.sqrt(at) + reach * math.sqrt(along)) ** 2
        return value, f"∇ℓ(θ; Z₀ + Aθ) is affine in θ: the spread of both its coefficients, {self.averaged}"

    def affine(self) -> bool:
        """Whether ℓ(θ; Z₀ + Aθ) is quadratic in θ and Z₀ together."""
        return polynomial.joint_degree(self.reacting, jnp.asarray(self.points[0]), self.draws[0]) <= 2

    @functools.cached_property
    def quadratic_in_data(self) -> bool:
        """Whether ℓ is quadratic in Z, so that ∇P̂R is quadratic in the effect."""
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        return polynomial.degree(lambda z, theta: self.problem.loss(theta, z), z, theta) <= 2

    def gain(self) -> tuple[float, float, float, str]:
        """(K₁, what n base samples add to it over √n, K₂) with ‖∇P̂R_t(θ) − ∇P̂R(θ)‖ ≤ K₁‖D‖ + K₂‖D‖² on Θ.

        The base samples are those of the warm-up at o = Π_Θ(0), so that the prediction at θ is Z + Â(θ − o).
        """
        effect, d = jnp.asarray(self.environment.effect), self.dimension
        infinite = (math.inf, math.inf, math.inf)
        if not self.bounded:
            return *infinite, "Θ is unbounded"
        if not self.quadratic_in_data:
            return *infinite, "ℓ is not quadratic in Z, and no bound is known"
        if d * effect.size > LARGE:
            return self._gain_from_constants()
        origin = self.problem.decisions.project(jnp.zeros(d))
        shift = self.environment.shift
        center = jnp.mean(self.draws, axis=0) if self.exactly_drawn else jnp.asarray(self.environment.base.mean)

        def slope(theta: Array, effect: Array, z0: Array) -> Array:
            def believed(theta: Array) -> Array:
                observed = z0 + shift(jnp.asarray(self.environment.effect), origin)
                return self.problem.loss(theta, observed + shift(effect, theta - origin))

            return jax.grad(believed)(theta)

        first_derivative, second_derivative = jax.jacfwd(slope, 1), jax.jacfwd(jax.jacfwd(slope, 1), 1)
        decisions, points = self.problem.decisions, self.points
        first, _ = ascended(
            lambda theta: _norm(first_derivative(theta, effect, center).reshape(d, -1)), decisions, points
        )
        by_data = jax.jacfwd(first_derivative, 2)

        def felt(theta: Array) -> Array:  # affine in z0: how much of z̄₀ − E Z₀ enters
            return _norm(by_data(theta, effect, center).reshape(-1, center.shape[0]))

        covariance, _, _ = self.moments
        spread = ascended(felt, decisions, points[:8])[0] * math.sqrt(float(np.trace(covariance)))
        second = 0.0
        if not self.linear_in_data:
            if d * effect.size**2 > 100 * LARGE:
                return self._gain_from_constants()

            def bent(theta: Array) -> Array:
                both = second_derivative(theta, effect, center).reshape(d, effect.size, effect.size)
                square = jnp.einsum("iab,iac->bc", both, both)
                return jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(square)[-1], 0.0)) / 2

            second = ascended(bent, decisions, points[:8])[0]
        return first, spread, second, "the derivatives of ∇P̂R in the effect, the largest found on Θ by ascent"

    @functools.cached_property
    def linear_in_data(self) -> bool:
        """Whether ℓ is linear in Z, so that ∇P̂R is linear in the effect."""
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        return polynomial.degree(lambda z, theta: self.problem.loss(theta, z), z, theta) <= 1

    def _gain_from_constants(self) -> tuple[float, float, float, str]:
        """The gain of Lemma 4 from β, β_Z and the mean of ∇_Zℓ, where the effect is too large to differentiate by."""
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        if not (self.constant(self.mixed_hessian, theta, z) and self.constant(self.data_hessian, theta, z)):
            return math.inf, math.inf, math.inf, f"the effect holds too many numbers ({self.environment.effect.size})"
        across, within = (float(_norm(matrix(theta, z))) for matrix in (self.mixed_hessian, self.data_hessian))
        center = jnp.mean(self.draws, axis=0) if self.exactly_drawn else jnp.asarray(self.environment.base.mean)
        slope = jax.grad(self.problem.loss, 1)
        mean, _ = ascended(
            lambda theta: jnp.linalg.norm(slope(theta, self.answer(center, theta))),
            self.problem.decisions,
            self.points[:8],
        )
        shift = None if self.environment.dimension is not None else self.environment.shift
        strongest = bounds.sensitivity(self.environment.effect, shift, self.dimension)
        first, second = bounds.effect_gain(across, within, mean, strongest, self.problem.decisions.radius)
        spread = within * math.sqrt(float(np.trace(self.moments[0])))
        return first, spread, second, "Lemma 4's formula from β, β_Z and the mean of ∇_Zℓ"

    @functools.cached_property
    def moments(self) -> tuple[Floats, Floats, float]:
        """Σ, Σ on the directions that the shift can move, and E‖·‖⁴ of the base there."""
        base = self.environment.base
        covariance = np.asarray(
            base.full_covariance() if isinstance(base, Gaussian) else jnp.cov(self.draws.T, bias=True)
        ).reshape(base.width, base.width)
        moved = self.moved_directions()
        within = moved.T @ covariance @ moved
        if isinstance(base, Gaussian):
            fourth = np.trace(within) ** 2 + 2 * np.sum(within * within)
        else:
            centred = (np.asarray(self.draws) - np.mean(self.draws, axis=0)) @ moved
            fourth = np.mean(np.sum(centred**2, axis=1) ** 2)
        return covariance, within, float(fourth)

    def shift_derivatives(self) -> Floats:
        """The shift as a tensor (k, p, d): it is bilinear in an effect of p numbers and a decision of d."""
        effect = jnp.zeros(np.shape(self.environment.effect))
        by_effect = jax.jacfwd(self.environment.shift, 0)
        tensor = jax.jacfwd(by_effect, 1)(effect, jnp.zeros(self.dimension))
        return np.asarray(tensor).reshape(self.environment.width, effect.size, self.dimension)

    def moved_directions(self) -> Floats:
        """An orthonormal basis (k, r) of the data directions that any effect can move."""
        width = self.environment.width
        if self.environment.dimension is not None:
            return np.eye(width)
        left, values, _ = np.linalg.svd(self.shift_derivatives().reshape(width, -1), full_matrices=False)
        return np.asarray(left[:, values > 1e-12 * values[0]])

    @functools.cached_property
    def isometric(self) -> bool:
        """Whether an effect is as large as the matrix θ ↦ shift(effect, θ) it stands for."""
        if self.environment.dimension is not None:
            return True
        tensor = self.shift_derivatives()
        gram = np.einsum("kpd,kqd->pq", tensor, tensor)
        return bool(np.allclose(gram, np.eye(len(gram)), atol=1e-9))

    def _affine_variance(self) -> float:
        slope = jax.jacfwd(jax.grad(self.reacting), 1)(jnp.asarray(self.points[0]), self.draws[0])
        covariance, _, _ = self.moments
        return float(np.trace(np.asarray(slope) @ covariance @ np.asarray(slope).T))

    def _everywhere(self, value: Callable[[Array, Array], Array]) -> Floats:
        def at(theta: Array) -> Array:
            return jax.vmap(lambda z0: value(theta, self.answer(z0, theta)))(self.draws)

        return np.asarray(jax.jit(lambda points: lax.map(at, points))(jnp.asarray(self.points)))


def ascended(value: Callable[[Array], Array], decisions: Any, points: Floats) -> tuple[float, Floats]:
    """The largest value of a function on Θ that ascent from `points` finds, and where.

    Steps follow the gradient as far as Θ is wide and half as far after every failure; projected, they reach the boundary,
    where convex functions are largest.
    """
    width = decisions.radius if math.isfinite(decisions.radius) else 10.0

    def climb(theta: Array) -> tuple[Array, Array]:
        def step(_: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            theta, best, length = carry
            slope = jax.grad(value)(theta)
            slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
            moved = decisions.project(theta + length * slope / jnp.maximum(jnp.linalg.norm(slope), 1e-300))
            reached = value(moved)
            better = reached > best
            return jnp.where(better, moved, theta), jnp.maximum(reached, best), jnp.where(better, length, length / 2)

        theta, best, _ = lax.fori_loop(0, ASCENT, step, (theta, value(theta), jnp.asarray(2.0 * width)))
        return best, theta

    values, where = jax.jit(lambda points: lax.map(climb, points))(jnp.asarray(points))
    values = np.nan_to_num(np.asarray(values), nan=-np.inf)
    best = int(np.argmax(values))
    return float(values[best]), np.asarray(where)[best]


def _report(
    problem: Problem, environment: LocationFamily, c: dict[str, float], how: dict[str, str], look: _Look, optimum: Any
) -> tuple[Assumption, ...]:
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


def _convex_constraints(problem: Problem, look: _Look) -> tuple[bool | None, str]:
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
