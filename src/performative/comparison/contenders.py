"""The methods that are compared and their settings: every method gets the theory's rates in the unit of the problem."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.protocol import KnownWorld, knows_risk, risk_of
from performative.loading import load
from performative.methods.confidence_bounds import confidence_bounds
from performative.methods.least_squares import least_squares
from performative.methods.paper import apda, oracle, pd_ps
from performative.methods.perfgd import perfgd
from performative.methods.protocol import Method
from performative.methods.repeated_gradient import repeated_gradient
from performative.methods.repeated_minimization import repeated_minimization
from performative.methods.safe_apda import safe_apda
from performative.methods.score_gradient import score_gradient
from performative.methods.stay import stay
from performative.methods.thompson import thompson
from performative.methods.two_stage import two_stage
from performative.methods.zeroth_order import one_point, two_point
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.numerics.pytrees import as_node
from performative.numerics.randomness import new_key
from performative.problem import Problem
from performative.problems import Case
from performative.solvers.feasibility import require_feasible, require_inside
from performative.truth.sampled import SampledRisk
from performative.validation import like

DRAWS = 20_000
"""Samples that the unit of a problem is measured with, where its world only samples."""
Maker = Callable[[Case, "Scale"], Method]
"""Makes a method for a problem, in the unit of the problem."""


class Scale(NamedTuple):
    """The unit of a problem, and the budget.

    `curvature` is the mean of |the eigenvalues| of ∇²PR at the optimum, so that η = T^(−1/2)/curvature is the theorem's step
    whatever unit the loss has; `reach` is how far probes go, half of sup‖θ‖ over √d, at most 1; `sensitivity` is by how much the
    mean loss changes per unit of the deployed decision, a fifth more than the largest value found on Θ; `deployments` is T. Every
    built-in method that has a step or probes to set is told these. All methods are told `start`, where they begin, and
    `samples`, how many samples each deployment brings; with None every method decides for itself and every sample counts as a
    deployment.
    """

    curvature: float
    reach: float
    sensitivity: float
    deployments: int
    start: Floats
    samples: int | None = None

    def each(self, usual: int) -> int:
        """How many samples a deployment brings, `usual` unless all methods get the same number."""
        return usual if self.samples is None else self.samples

    @property
    def warmup(self) -> int:
        """√T samples, at most 100, or one deployment where all bring the same number of samples."""
        return self.each(min(int(np.ceil(np.sqrt(self.deployments))), 100))

    def step(self, rate: float = 0.5) -> float:
        """η = T^(−rate)/curvature."""
        return self.deployments**-rate / self.curvature

    def probe(self, rate: float) -> float:
        """δ = T^(−rate)·reach."""
        return self.deployments**-rate * self.reach


@in_float64
def start_of(case: Case, start: ArrayLike | str | None) -> Floats:
    """Where all methods begin: at `start`, at the "stable" point, or by default at the point of Θ nearest to 0.

    Where that is not feasible, the default is the decision with the largest slack.
    """
    if start is None:
        return np.asarray(require_feasible(case.problem))
    if not isinstance(start, str):
        return require_inside("start", case.problem, start)
    if start != "stable":
        raise ValueError(f"`start` must be a decision or 'stable', but got {start!r}")
    if case.stable is None:
        raise ValueError(
            f"`start` must be a decision, since the stable point of {case.name!r} is unknown, but got {start!r}"
        )
    return np.asarray(case.problem.decisions.project(jnp.asarray(case.stable.decision)))


@in_float64
def scale_of(case: Case, deployments: int, samples: int | None = None, start: Floats | None = None) -> Scale:
    """The unit of a problem, from its truth or, where its world only samples, from samples."""
    problem, best = case.problem, case.center
    points = np.asarray([*problem.decisions.spread(problem.d, 40), best])
    if knows_risk(case.environment):
        hessian, slopes = map(np.asarray, _bends(problem, as_node(case.environment), best, points))
    else:
        sampled = SampledRisk(problem, as_node(case.environment), new_key(0), jnp.ones(()), DRAWS)
        length = float(np.median(np.linalg.norm(points - best, axis=-1))) or 1.0
        hessian = _second_differences(jax.jit(sampled), best, 0.1 * length)
        slopes = _slopes(jax.jit(sampled), points[:8], 0.1 * length)
    return Scale(
        curvature=max(float(np.mean(np.abs(np.linalg.eigvalsh(hessian)))), 1e-3),
        reach=min(1.0, float(problem.decisions.radius / (2 * np.sqrt(problem.d)))),
        sensitivity=1.2 * float(np.max(np.linalg.norm(slopes, axis=-1))) + 1e-3,
        deployments=deployments,
        start=start_of(case, start),
        samples=samples,
    )


@Program
def _bends(problem: Problem, environment: KnownWorld, best: Array, points: Array) -> tuple[Array, Array]:
    """∇²PR at the optimum, and the gradient in the deployed decision, of each point on the data that each point brings."""
    risk = risk_of(problem, environment)
    return jax.hessian(risk)(best), jax.vmap(jax.vmap(jax.grad(risk, 1), (None, 0)), (0, None))(points, points)


def _second_differences(risk: Callable[..., Array], at: Floats, step: float) -> Floats:
    """The Hessian by differences, for samples that jump and so have no derivative."""
    axes = step * np.eye(len(at))

    def value(move: Floats) -> float:
        return float(risk(jnp.asarray(at + move)))

    return np.asarray(
        [
            [value(one + other) - value(one - other) - value(other - one) + value(-one - other) for other in axes]
            for one in axes
        ]
    ) / (4 * step**2)


def _slopes(risk: Callable[..., Array], points: Floats, step: float) -> Floats:
    """The gradients by differences in the deployed decision, of each point on the data that it brings."""
    axes = step * np.eye(points.shape[1])
    return np.asarray(
        [
            [
                (float(risk(jnp.asarray(x), jnp.asarray(x + a))) - float(risk(jnp.asarray(x), jnp.asarray(x - a))))
                / (2 * step)
                for a in axes
            ]
            for x in points
        ]
    )


def _location(case: Case) -> dict[str, Any]:
    return {"shift": case.shift, "effect": case.prior}


def _common(scale: Scale, usual: int = 1) -> dict[str, Any]:
    return {"start": scale.start, "samples": scale.each(usual)}


def _safe_apda(case: Case, scale: Scale) -> Method:
    return safe_apda(case.problem, **_common(scale), **_location(case))


def _stay(case: Case, scale: Scale) -> Method:
    return stay(case.problem, **_common(scale))


def _least_squares(case: Case, scale: Scale) -> Method:
    return least_squares(case.problem, reservoir=100, **_common(scale), **_location(case))


def _thompson(case: Case, scale: Scale) -> Method:
    return thompson(case.problem, reservoir=100, **_common(scale), **_location(case))


def _apda(case: Case, scale: Scale, recycle: bool = False) -> Method:
    steps: dict[str, Any] = {"step": scale.step(), "warmup": scale.warmup, "exploration": scale.reach}
    return apda(case.problem, recycle=recycle, **steps, **_common(scale), **_location(case))


def _pd_ps(case: Case, scale: Scale) -> Method:
    steps: dict[str, Any] = {"step": scale.step(), "warmup": scale.warmup, "exploration": scale.reach}
    return pd_ps(case.problem, **steps, **_common(scale), **_location(case))


def _oracle(case: Case, scale: Scale) -> Method:
    if case.known_effect is None:
        raise ValueError("it needs the effect, which is known only in a location family")
    return oracle(
        case.problem,
        effect=case.known_effect,
        shift=case.shift,
        step=scale.step(),
        warmup=scale.warmup,
        recycle=True,
        **_common(scale),
    )


def _rgd(case: Case, scale: Scale) -> Method:
    return repeated_gradient(case.problem, step=scale.step(), **_common(scale))


def _rrm(case: Case, scale: Scale) -> Method:
    return repeated_minimization(case.problem, **_common(scale, int(np.ceil(np.sqrt(scale.deployments)))))


def _two_stage(case: Case, scale: Scale) -> Method:
    return two_stage(
        case.problem,
        stage=max(int(scale.deployments ** (2 / 3)), case.problem.d + 1),
        exploration=scale.reach,
        warmup=scale.each(100),
        **_common(scale),
        **_location(case),
    )


def _perfgd(case: Case, scale: Scale) -> Method:
    if case.family is None:
        raise ValueError("it needs the family of the data, which is unknown")
    return perfgd(
        case.problem,
        family=case.family,
        step=scale.step(),
        exploration=scale.probe(1 / 6),
        memory=max(2 * case.problem.d, 50),
        **_common(scale, 1 if case.problem.d <= 3 else 10),
    )


def _score(case: Case, scale: Scale) -> Method:
    if case.density is None:
        raise ValueError("it needs the density, which is unknown")
    return score_gradient(case.problem, log_density=case.density, step=scale.step(), **_common(scale))


# The mean square of their estimates is d² and d times that of a gradient.
def _one_point(case: Case, scale: Scale) -> Method:
    step = scale.step(3 / 4) / case.problem.d**2
    return one_point(case.problem, step=step, exploration=scale.probe(1 / 4), **_common(scale))


def _two_point(case: Case, scale: Scale) -> Method:
    step = scale.step(2 / 3) / case.problem.d
    return two_point(case.problem, step=step, exploration=scale.probe(1 / 6), **_common(scale))


def _confidence(case: Case, scale: Scale) -> Method:
    usual = max(10, int(np.sqrt(scale.deployments)))
    return confidence_bounds(case.problem, sensitivity=scale.sensitivity, **_common(scale, usual))


CONTENDERS: dict[str, Maker] = {
    "stay": _stay,
    "safe-apda": _safe_apda,
    "least-squares": _least_squares,
    "thompson": _thompson,
    "apda": _apda,
    "apda-recycle": functools.partial(_apda, recycle=True),
    "pd-ps": _pd_ps,
    "oracle": _oracle,
    "rgd": _rgd,
    "rrm": _rrm,
    "two-stage": _two_stage,
    "perfgd": _perfgd,
    "score": _score,
    "one-point": _one_point,
    "two-point": _two_point,
    "confidence": _confidence,
}
"""The built-in methods by name."""


def maker(name: str) -> Maker:
    """The contender of this name, or your own `module:function`, a function of the problem that returns a method."""
    if name in CONTENDERS:
        return CONTENDERS[name]
    if not all(name.partition(":")):
        raise ValueError(
            f"`methods` must be among {list(CONTENDERS)} or your own module:function, but got {name!r}{like(name, CONTENDERS)}"
        )
    return on_problem(load("methods", name))


def on_problem(function: Callable[..., Method]) -> Maker:
    """A contender from a function of the problem; it gets `start` and `samples` too if it takes them and has not fixed them."""

    def make(case: Case, scale: Scale) -> Method:
        told = {"start": scale.start} if scale.samples is None else {"start": scale.start, "samples": scale.samples}
        fixed = function.keywords if isinstance(function, functools.partial) else {}
        taken = {name: value for name, value in told.items() if name not in fixed and _takes(function, name)}
        return function(case.problem, **taken)

    return make


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (ValueError, TypeError):  # a function without a signature
        return False
    return parameter is not None and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)


def as_given(method: Method) -> Maker:
    """A contender that is a method already, with its own start and number of samples."""
    return lambda case, scale: method
