"""`constants`: computes the constants of a concrete problem in a location family."""

from __future__ import annotations

import jax
import numpy as np

from performative.environments import LocationFamily
from performative.numerics.precision import in_float64
from performative.problem import Problem, with_dimension
from performative.theory import base_error, risk
from performative.theory.assumptions import assumptions
from performative.theory.evidence import is_proved, proved
from performative.theory.gain import gain
from performative.theory.landscape import Landscape
from performative.theory.noise import noise_constants
from performative.theory.slater import multipliers, slater
from performative.theory.theorem import Constants
from performative.truth.optimum import performative_optimum
from performative.validation import positive


@in_float64
def constants(problem: Problem, environment: LocationFamily, exploration: float = 1.0, seed: int = 0) -> Constants:
    """All constants of a problem in a location family, and the report on the paper's assumptions.

    The evidence of a constant begins with *proved* or *estimated*. It is proved where the derivatives concerned are constant or
    affine on Θ, or g quadratic; otherwise it is the largest (or smallest) value that ascent from decisions all over Θ finds,
    which may be too small. An average over a Gaussian base is proved where the averaged function is affine in the data;
    otherwise it is estimated from a fixed number of draws with `seed`. Infinite constants are *unknown*.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(
    ...     lambda theta, z: jnp.sum((theta - z) ** 2), pf.Ball(1.0), [pf.constraints.Linear([1.0, 1.0], 0.5, name="cap")]
    ... )
    >>> environment = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [0.1, 0.1]), effect=[[0.2, 0.0], [0.0, 0.2]])
    >>> constants = pf.theory.constants(problem, environment)
    >>> round(constants.convexity, 6), constants.horizon  # PR = 0.64‖θ‖² + …, and ∇g = (1, 1)
    (1.28, 64)
    >>> constants.assumption("PR strongly convex").holds, sorted(constants.settings(10_000))
    (True, ['control', 'estimation_step', 'exploration', 'step', 'warmup'])
    >>> constants.theorem(10_000).proved
    True
    >>> constants.theorem(10_000).regret > constants.theorem(1_000).regret
    True
    """
    if not isinstance(environment, LocationFamily):
        raise TypeError(
            f"`environment` must be a performative.LocationFamily, the setting of the theorem, but got {environment!r}"
        )
    problem = with_dimension(problem, environment=environment)
    d, optimum = problem.d, performative_optimum(problem, environment)
    landscape = Landscape(problem, environment, d, seed)
    evidence: dict[str, str] = {"radius": proved(f"sup ‖θ‖ over {type(problem.decisions).__name__}")}
    values: dict[str, float] = {"radius": float(problem.decisions.radius)}

    def record(name: str, result: tuple[float, str]) -> None:
        values[name], evidence[name] = result

    record("decision_convexity", landscape.smallest_eigenvalue("the Hessian of ℓ in θ", landscape.decision_hessian))
    record("data_convexity", landscape.smallest_eigenvalue("the Hessian of ℓ in Z", landscape.data_hessian))
    record("smoothness", landscape.largest_norm("‖∂²ℓ/∂θ∂Z‖", landscape.mixed_hessian))
    record("data_smoothness", landscape.largest_norm("‖∂²ℓ/∂Z²‖", landscape.data_hessian))
    record("loss_lipschitz", landscape.largest_slope("‖∇_θℓ‖", jax.grad(problem.loss)))
    record("data_lipschitz", landscape.largest_slope("‖∇_Zℓ‖", jax.grad(problem.loss, 1)))
    record("convexity", landscape.risk_convexity())
    record("lipschitz", landscape.risk_lipschitz())
    record("constraint_lipschitz", landscape.largest_affine("‖∇g‖", jax.jacobian(problem.g)))
    record("constraint_bound", landscape.largest_constraints())
    record("variance", base_error.variance(landscape))
    record("uniform_variance", base_error.uniform_variance(landscape))
    moments = landscape.moments
    record("trace", (float(np.trace(moments.covariance)), proved("of the samples" if landscape.finite_base else "Σ")))
    shift = None if environment.dimension is not None else environment.shift
    record("sensitivity", (risk.sensitivity(environment.effect, shift, d), proved("a singular value")))
    record("least_response", (risk.least_response(environment.effect, shift, d), proved("a singular value")))
    record("effect_error", (float(np.sum(np.asarray(environment.effect) ** 2)), proved("‖Â₀ − A‖² with Â₀ = 0")))
    slack = slater(problem, values["constraint_bound"])
    norm, gap, how = multipliers(
        landscape, optimum, slack, convex=values["convexity"] > 0 and is_proved(evidence["convexity"])
    )
    record("multipliers", (norm, how))
    record("duality_gap", (gap, how))
    effect_gain = gain(landscape)
    evidence["gain"] = effect_gain.evidence
    return Constants(
        **values,
        gain=(effect_gain.first, effect_gain.second),
        gain_spread=effect_gain.spread,
        dimension=d,
        exploration=float(exploration),
        noise=noise_constants("gaussian", d, positive("exploration", exploration)),
        moved_covariance=moments.moved_covariance,
        moved_fourth=moments.moved_fourth,
        evidence=evidence,
        assumptions=assumptions(landscape, values, evidence, slack),
    )
